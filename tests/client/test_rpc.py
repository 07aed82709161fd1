"""HTTP requests of clients."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import numpy as np
import pytest

from openenv_gym import errors
from openenv_gym.client.deadline import deadline_in
from openenv_gym.client.endpoint import Endpoint, parse_endpoint
from openenv_gym.client.rpc import Rpc, fetch_json

Answer = Callable[[str, Any], tuple[int, bytes]]


@contextmanager
def answering(answer: Answer) -> Iterator[tuple[Endpoint, list[Any]]]:
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            seen.append((self.command, self.path, dict(self.headers), body))
            status, data = answer(self.path, json.loads(body) if body else None)
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield parse_endpoint(f"ws://127.0.0.1:{server.server_port}/prefix?x=1"), seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def result(value: Any) -> Answer:
    return lambda path, body: (
        200,
        json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": value}).encode(),
    )


def failure(code: int, message: str, data: Any = None) -> Answer:
    error = {"code": code, "message": message, "data": data}
    return lambda path, body: (
        200,
        json.dumps({"jsonrpc": "2.0", "id": body["id"], "error": error}).encode(),
    )


def test_a_method_is_posted_beside_the_websocket_with_who_asks() -> None:
    with answering(result({"tools": []})) as (endpoint, seen):
        rpc = Rpc(endpoint, 30.0, token="s3cret", headers={"X-Key": "k"})
        assert rpc.call("tools/list", {"a": 1}) == {"tools": []}
        rpc.call("tools/list", {})
    method, path, headers, body = seen[0]
    assert (method, path) == ("POST", "/prefix/mcp")
    assert (headers["Authorization"], headers["X-Key"]) == ("Bearer s3cret", "k")
    assert json.loads(body) == {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"a": 1}}
    assert json.loads(seen[1][3])["id"] == 2


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (failure(-32601, "Method not found: x"), errors.UnsupportedError, "Method not found"),
        (failure(-32602, "Unknown session_id: s"), errors.SessionLostError, "Unknown session_id"),
        (failure(-32602, "Missing 'name'"), errors.ValidationError, "Missing 'name'"),
        (failure(-32603, "Unknown tool: 'x'"), errors.ToolNotFoundError, "Unknown tool"),
        (failure(-32603, "Error calling tool 'x': no"), errors.ToolFailedError, "no"),
        (
            failure(-32000, "full", {"active_sessions": 2, "max_sessions": 2}),
            errors.CapacityError,
            "full",
        ),
        (
            failure(-32602, "wrong", {"error": "validation", "details": {"path": "$.a"}}),
            errors.ValidationError,
            "wrong",
        ),
        (lambda path, body: (200, b"[]"), errors.RemoteProtocolError, "does not speak JSON-RPC"),
        (lambda path, body: (200, b"{"), errors.RemoteProtocolError, "did not answer with JSON"),
        (
            lambda path, body: (200, b'{"id": 9, "result": 1}'),
            errors.RemoteProtocolError,
            "answered request 9",
        ),
        (lambda path, body: (401, b""), errors.AuthenticationError, "HTTP 401"),
        (lambda path, body: (403, b"{}"), errors.ForbiddenError, "HTTP 403"),
        (lambda path, body: (404, b"{}"), errors.UnsupportedError, "HTTP 404"),
        (lambda path, body: (500, b"oops"), errors.ServerConnectionError, "HTTP 500"),
        (
            lambda path, body: (503, b'{"code": "capacity", "message": "full", "details": {"max": 1}}'),
            errors.CapacityError,
            "full",
        ),
    ],
)
def test_what_a_server_answers_instead_is_typed(
    answer: Answer, kind: type[errors.OpenEnvError], says: str
) -> None:
    with answering(answer) as (endpoint, _), pytest.raises(kind, match=says) as caught:
        Rpc(endpoint, 30.0).call("tools/call", {})
    assert type(caught.value) is kind


def test_arguments_travel_as_json_spells_them() -> None:
    with answering(result(None)) as (endpoint, seen):
        rpc = Rpc(endpoint, 30.0)
        rpc.call("tools/call", {"arguments": {"a": np.arange(2), "b": float("nan"), "c": b"x"}})
        with pytest.raises(errors.ValueNotCarriedError, match=r"\$\.arguments\.a has no form in JSON"):
            rpc.call("tools/call", {"arguments": {"a": object()}})
    (sent,) = seen
    assert json.loads(sent[3])["params"] == {"arguments": {"a": [0, 1], "b": "NaN", "c": "eA=="}}


def test_facts_of_an_error_are_kept() -> None:
    with answering(failure(-32000, "full", {"active_sessions": 2, "max_sessions": 3})) as (endpoint, _):
        with pytest.raises(errors.CapacityError) as caught:
            Rpc(endpoint, 30.0).call("openenv/session/create", {})
    assert caught.value.details == {"active": 2, "max": 3}


def test_json_is_fetched() -> None:
    with answering(lambda path, body: (200, json.dumps({"path": path}).encode())) as (endpoint, seen):
        assert fetch_json(endpoint, "/schema", deadline_in(30)) == {"path": "/prefix/schema"}
        with pytest.raises(errors.RemoteProtocolError, match="more than 5 bytes"):
            fetch_json(endpoint, "/schema", deadline_in(30), max_message=5)
    assert seen[0][0] == "GET"


def test_nobody_there_is_no_connection() -> None:
    with pytest.raises(errors.ServerConnectionError, match="no server listens there"):
        fetch_json(parse_endpoint("ws://127.0.0.1:9"), "/schema", deadline_in(30))


def test_a_server_that_says_nothing_or_leaves_is_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = parse_endpoint(f"ws://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(errors.ServerTimeoutError, match="did not answer in time"):
            fetch_json(endpoint, "/schema", deadline_in(2))
        listener.accept()[0].close()

        def leave() -> None:
            listener.accept()[0].close()

        thread = threading.Thread(target=leave)
        thread.start()
        with pytest.raises(errors.ServerConnectionError, match="not known whether"):
            fetch_json(endpoint, "/schema", deadline_in(30))
        thread.join(10)


def test_a_deadline_that_has_passed_is_a_timeout() -> None:
    with answering(result(1)) as (endpoint, _), pytest.raises(errors.ServerConnectionError, match="in time"):
        fetch_json(endpoint, "/schema", deadline_in(-1.0))
