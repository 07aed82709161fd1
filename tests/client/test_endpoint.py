from __future__ import annotations

import os

import pytest

from openenv_gym.client.endpoint import is_loopback, parse_endpoint
from openenv_gym.errors import ConfigError


@pytest.mark.parametrize(
    ("base_url", "kind", "host", "port", "resource", "url"),
    [
        ("ws://127.0.0.1:8000", "tcp", "127.0.0.1", 8000, "/ws", "ws://127.0.0.1:8000"),
        ("ws://localhost", "tcp", "localhost", 80, "/ws", "ws://localhost"),
        ("wss://example.org", "tls", "example.org", 443, "/ws", "wss://example.org"),
        ("http://Example.ORG:1/", "tcp", "example.org", 1, "/ws", "ws://example.org:1/"),
        ("https://example.org/a/b", "tls", "example.org", 443, "/a/b/ws", "wss://example.org/a/b"),
        ("https://example.org/a/b/", "tls", "example.org", 443, "/a/b/ws", "wss://example.org/a/b/"),
        ("ws://h:8000/ws", "tcp", "h", 8000, "/ws", "ws://h:8000/ws"),
        ("ws://h/a?x=1", "tcp", "h", 80, "/a/ws?x=1", "ws://h/a"),
        ("ws://[::1]:8000", "tcp", "::1", 8000, "/ws", "ws://[::1]:8000"),
        ("ws://bücher.example", "tcp", "xn--bcher-kva.example", 80, "/ws", "ws://xn--bcher-kva.example"),
    ],
)
def test_network_addresses(base_url: str, kind: str, host: str, port: int, resource: str, url: str) -> None:
    endpoint = parse_endpoint(base_url)
    assert (endpoint.kind, endpoint.host, endpoint.port, endpoint.resource) == (kind, host, port, resource)
    assert endpoint.url == str(endpoint) == url
    assert endpoint.user is None


@pytest.mark.parametrize("base_url", ["unix:/run/echo.sock", "unix:///run/echo.sock"])
def test_unix_sockets(base_url: str) -> None:
    endpoint = parse_endpoint(base_url)
    assert (endpoint.kind, endpoint.socket_path, endpoint.resource) == ("unix", "/run/echo.sock", "/ws")
    assert str(endpoint) == "unix:/run/echo.sock"
    assert endpoint.local


def test_a_relative_socket_path_is_taken_from_the_working_folder_now() -> None:
    assert parse_endpoint("unix:s.sock").socket_path == os.path.abspath("s.sock")


@pytest.mark.parametrize(
    ("base_url", "says"),
    [
        ("localhost:8000", r"no scheme; write ws://localhost:8000"),
        ("127.0.0.1:8000/x?secret=1", r"no scheme; write ws://127.0.0.1:8000/x \(or"),
        ("example.org", r"no scheme; write ws://example.org"),
        ("ftp://h", r"scheme 'ftp'"),
        ("ws:", r"names no host"),
        ("ws://", r"names no host"),
        ("ws://:80", r"names no host"),
        ("ws://h:99999", r"cannot be read \(Port out of range"),
        ("ws://h:x", r"cannot be read"),
        ("ws://[::1", r"cannot be read"),
        ("ws://h/#f", r"fragment"),
        ("ws://h/ä", r"percent-encode"),
        ("ws://h h", r"white space"),
        ("ws://h\n", r"white space"),
        ("", r"empty"),
        ("unix:", r"names no socket"),
        ("unix://host/path", r"names no socket"),
        ("unix:/" + "x" * 200, r"longer than the 103 bytes"),
        (7, r"is a int"),
    ],
)
def test_what_is_no_address_says_what_to_write(base_url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        parse_endpoint(base_url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("localhost.evil.com", False),
        ("127.0.0.1.evil.com", False),
        ("evil.com", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_loopback_is_decided_by_the_parsed_host(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("base_url", "local"),
    [
        ("ws://0.0.0.0:1", True),
        ("ws://[::1]:1", True),
        ("ws://evil.com?x=localhost", False),
        ("ws://user:localhost@evil.com", False),
        ("ws://localhost@evil.com", False),
        (r"ws://localhost\@evil.com", False),
    ],
)
def test_only_the_host_makes_an_endpoint_local(base_url: str, local: bool) -> None:
    assert parse_endpoint(base_url).local is local


def test_user_and_query_are_never_shown() -> None:
    endpoint = parse_endpoint("wss://me:p%40ss@example.org/x?key=hidden")
    assert endpoint.user == ("me", "p@ss")
    assert endpoint.resource == "/x/ws?key=hidden"
    for text in (str(endpoint), repr(endpoint), endpoint.url):
        assert "p%40ss" not in text
        assert "p@ss" not in text
        assert "hidden" not in text
