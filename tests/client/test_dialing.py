from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from openenv_gym.client import dialing
from openenv_gym.client.deadline import deadline_in
from openenv_gym.client.dialing import dial, proxy_for, read_head
from openenv_gym.client.endpoint import parse_endpoint
from openenv_gym.client.flows import Unreachable
from openenv_gym.errors import ConfigError, ServerConnectionError

PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ws_proxy", "wss_proxy")


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@contextmanager
def listening(handler: Callable[[socket.socket], None]) -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        sock, _ = listener.accept()
        with sock:
            handler(sock)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        thread.join(10)
        listener.close()


def test_tcp() -> None:
    with (
        listening(lambda sock: sock.sendall(b"hi")) as port,
        dial(parse_endpoint(f"ws://localhost:{port}"), deadline_in(30)) as sock,
    ):
        assert sock.recv(2) == b"hi"


def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with dial(parse_endpoint(f"unix:{path}"), deadline_in(30)) as sock:
            assert sock.family == socket.AF_UNIX


def test_a_unix_socket_where_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="no server listens there"):
        dial(parse_endpoint(f"unix:{tmp_path / 's'}"), deadline_in(30))


def test_a_system_without_unix_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    with pytest.raises(ConfigError, match="has no Unix sockets"):
        dial(parse_endpoint("unix:/s"), deadline_in(30))


def test_a_port_where_nobody_listens() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        advice = r"start one \(python -m openenv_gym.serve\), or correct base_url"
        with pytest.raises(Unreachable, match=f"no server listens there .*; {advice}"):
            dial(parse_endpoint(f"ws://127.0.0.1:{bound.getsockname()[1]}"), deadline_in(30))


def test_a_deadline_that_has_passed() -> None:
    with listening(lambda sock: None) as port:
        with pytest.raises(Unreachable, match=r"no answer in time .*; is base_url the address"):
            dial(parse_endpoint(f"ws://127.0.0.1:{port}"), deadline_in(-1))
        socket.create_connection(("127.0.0.1", port)).close()


def test_a_name_without_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(Unreachable, match=r"the name 'nowhere.invalid' cannot be resolved"):
        dial(parse_endpoint("ws://nowhere.invalid"), deadline_in(30))


def test_every_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(lambda sock: sock.sendall(b"hi")) as port, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", closed.getsockname()),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with dial(parse_endpoint("ws://two.example"), deadline_in(30)) as sock:
            assert sock.recv(2) == b"hi"


@pytest.mark.parametrize(
    ("url", "variables", "proxy"),
    [
        ("ws://far.example", {}, None),
        ("ws://far.example", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("wss://far.example", {"HTTP_PROXY": "http://p:1"}, None),
        ("wss://far.example", {"HTTPS_PROXY": "http://p:1", "ALL_PROXY": "http://q:1"}, "http://p:1"),
        ("wss://far.example", {"ALL_PROXY": "http://q:1"}, "http://q:1"),
        ("ws://far.example", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "far.example"}, None),
    ],
)
def test_proxies_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, url: str, variables: dict[str, str], proxy: str | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name.lower(), value)
    assert proxy_for(parse_endpoint(url)) == proxy


def answering(*answers: bytes, heads: list[bytes]) -> Callable[[socket.socket], None]:
    def handler(sock: socket.socket) -> None:
        for answer in answers:
            heads.append(sock.recv(4096))
            sock.sendall(answer)

    return handler


def test_a_proxy_is_asked_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    heads: list[bytes] = []
    with listening(answering(b"HTTP/1.0 200 ok\r\n\r\n", b"hi", heads=heads)) as port:
        monkeypatch.setenv("http_proxy", f"http://me:p%40ss@127.0.0.1:{port}")
        with dial(parse_endpoint("ws://far.example:81/prefix"), deadline_in(30)) as sock:
            sock.sendall(b"x")
            assert sock.recv(2) == b"hi"
    assert heads[0] == (
        b"CONNECT far.example:81 HTTP/1.1\r\nHost: far.example:81\r\n"
        b"Proxy-Authorization: Basic bWU6cEBzcw==\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", ServerConnectionError),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", Unreachable),
        (b"HTTP/1.1\r\n\r\n", ServerConnectionError),
    ],
)
def test_a_proxy_that_refuses(monkeypatch: pytest.MonkeyPatch, answer: bytes, kind: type[Exception]) -> None:
    with listening(answering(answer, heads=[])) as port:
        monkeypatch.setenv("http_proxy", f"me:pw@127.0.0.1:{port}")
        with pytest.raises(ServerConnectionError, match=r"the proxy 127.0.0.1 refuses") as caught:
            dial(parse_endpoint("ws://far.example"), deadline_in(30))
    assert type(caught.value) is kind
    assert "pw" not in str(caught.value)


def test_a_proxy_of_another_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"'socks5'.*only http:// proxies"):
        dial(parse_endpoint("ws://far.example"), deadline_in(30))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_this_machine_is_reached_without_a_proxy(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with (
        listening(lambda sock: sock.sendall(b"hi")) as port,
        dial(parse_endpoint(f"ws://{host}:{port}"), deadline_in(30)) as sock,
    ):
        assert sock.recv(2) == b"hi"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with a key and a certificate for ``localhost``."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
            ),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    both = folder / "both.pem"
    both.write_text(key.read_text() + cert.read_text())
    return both


def tls_server(certificate: Path) -> Callable[[socket.socket], None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def handler(sock: socket.socket) -> None:
        try:
            with context.wrap_socket(sock, server_side=True) as wrapped:
                wrapped.sendall(b"hi")
        except OSError:  # of TLS, or a reset by a client that does not trust us
            pass

    return handler


def test_tls(monkeypatch: pytest.MonkeyPatch, certificate: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with (
        listening(tls_server(certificate)) as port,
        dial(parse_endpoint(f"wss://localhost:{port}"), deadline_in(30)) as sock,
    ):
        assert sock.recv(2) == b"hi"


def test_a_certificate_that_nobody_vouches_for_is_refused(certificate: Path) -> None:
    with listening(tls_server(certificate)) as port:
        with pytest.raises(ServerConnectionError, match=r"TLS failed.*SSL_CERT_FILE") as caught:
            dial(parse_endpoint(f"wss://localhost:{port}"), deadline_in(30))
    assert not isinstance(caught.value, Unreachable)


def test_tls_to_a_server_that_speaks_none_says_how_to_reach_it() -> None:
    with listening(lambda sock: sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port:
        with pytest.raises(ServerConnectionError, match=r"TLS failed.*reached by ws:// or http://"):
            dial(parse_endpoint(f"wss://localhost:{port}"), deadline_in(30))


def test_a_head_that_never_ends_is_refused() -> None:
    ours, theirs = socket.socketpair()
    endpoint = parse_endpoint("ws://h")
    with ours, theirs:
        thread = threading.Thread(target=_flood, args=(theirs,))
        thread.start()
        with pytest.raises(ServerConnectionError, match="does not speak HTTP"):
            read_head(ours, endpoint, deadline_in(30))
        ours.close()
        thread.join(10)


def _flood(sock: socket.socket) -> None:
    try:
        sock.sendall(b"HTTP/1.1 200 ok\r\n" + b"x" * (dialing._HEAD_LIMIT + 10_000))
    except OSError:
        pass


def test_a_head_and_what_follows_are_told_apart_however_they_arrive() -> None:
    ours, theirs = socket.socketpair()
    data = b"HTTP/1.1 101 ok\r\nA: b\r\n\r\nrest"
    with ours, theirs:
        for byte in data[:-1]:
            theirs.sendall(bytes([byte]))
        assert read_head(ours, parse_endpoint("ws://h"), deadline_in(30)) == (data[:-4], b"res")
