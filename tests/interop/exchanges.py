"""What is said to a server of OpenEnv's JSON, step by step: every message type and error code.

A step goes ``to`` a connection: ``"ws /ws"`` and ``"ws /mcp"`` are WebSockets, opened when they are first
named; ``"ws2 /ws"`` is another; ``"POST /reset"`` is HTTP. ``send`` is a JSON value, a text or bytes as they
are, or ``None``: nothing, just an answer is awaited. ``$session`` stands for the session id that the server
gave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["EXCHANGES", "Exchange", "Step"]

RESET = {"type": "reset"}
STATE = {"type": "state"}


@dataclass(frozen=True)
class Step:
    """One request.

    Attributes:
        to: Which connection.
        send: What is sent.
        differs: Why we answer in another way, if we do.
        ours: How, as far as it matters.
    """

    to: str
    send: Any = None
    differs: str = ""
    ours: Any = None


@dataclass(frozen=True)
class Exchange:
    """A conversation with a server of the environment ``kind``."""

    name: str
    kind: str
    steps: tuple[Step, ...]


def _step(**action: Any) -> dict[str, Any]:
    return {"type": "step", "data": action}


def _rpc(method: str, request_id: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params, "id": request_id}


def _ws(*requests: Any, to: str = "ws /ws") -> tuple[Step, ...]:
    return tuple(each if isinstance(each, Step) else Step(to, each) for each in requests)


def _in_session(*requests: dict[str, Any]) -> tuple[Step, ...]:
    return _ws(*({"type": "mcp", "data": request} for request in requests))


_MCP = (
    _rpc("tools/list"),
    _rpc("tools/call", name="add", arguments={"a": 1}),
    _rpc("tools/call", name="describe", arguments={"word": "hi"}),
    _rpc("tools/call", name="fail", arguments={"why": "q"}),
    _rpc("tools/call", name="nope", arguments={}),
    _rpc("tools/call", arguments={}),
    _rpc("ping"),
    _rpc("resources/list", "an-id"),
    {"jsonrpc": "2.0", "method": "tools/list", "id": 1, "more": 1},
    {"jsonrpc": "1.0", "method": "tools/list", "id": 1},
    {"jsonrpc": "2.0", "method": "tools/list", "params": [], "id": 1},
)
_STAYS = "one odd frame costs an error, not the session"
_ODD = (("a list", "[1]"), ("a number", "1"), ("binary", b"{}"))
_OUR_FORM = "errors outside of requests' forms are {code, message, details}"
_INVALID = {"error_type": "invalid_args", "message": ""}
_OVER = "there is no episode to step in"
_CREATE, _CLOSE = _rpc("openenv/session/create"), _rpc("openenv/session/close", session_id="$session")

EXCHANGES = (
    Exchange(
        "an episode",
        "probe",
        _ws(
            RESET,
            {"type": "reset", "data": {"seed": 42, "episode_id": "ep1", "foo": 1}},
            _step(message="hi"),
            _step(message="hi", mood="loud", metadata={"tag": 1}),
            STATE,
            _step(message="true"),
            _step(message="one"),
            _step(message="nothing"),
            Step("ws /ws", _step(message="nan"), "NaN is spelled", {"frame": {"data": {"reward": "NaN"}}}),
            _step(message="end"),
            Step("ws /ws", _step(message="hi"), _OVER, {"frame": {"data": {"code": "EXECUTION_ERROR"}}}),
            RESET,
            _step(message="hi"),
            {"type": "close"},
        ),
    ),
    Exchange(
        "no episode",
        "probe",
        _ws(
            Step("ws /ws", _step(message="hi"), _OVER, {"frame": {"data": {"code": "EXECUTION_ERROR"}}}),
            RESET,
        ),
    ),
    Exchange(
        "errors that leave the session",
        "probe",
        _ws(
            RESET,
            "{bad",
            "",
            {"type": "zzz"},
            {},
            {"type": "state", "data": {}},
            {"type": "reset", "data": []},
            {"type": "reset", "more": 1},
            {"type": "step"},
            _step(),
            _step(message=""),
            _step(message="hi", mood="angry"),
            _step(message="hi", speed=1),
            _step(type="call_tool", tool_name="add", arguments={}),
            _step(message="kaboom"),
            _step(message="hi"),
        ),
    ),
    *(
        Exchange(
            f"an odd frame: {name}",
            "probe",
            (
                Step("ws /ws", frame, _STAYS, {"frame": {"type": "error"}}),
                Step("ws /ws", RESET, _STAYS, {"frame": {"type": "observation"}}),
            ),
        )
        for name, frame in _ODD
    ),
    Exchange(
        "no slot is free",
        "solo",
        (
            *_ws(RESET),
            Step("ws2 /ws", None),
            Step("ws2 /ws", None),
            Step("POST /mcp", _CREATE),
            Step("ws3 /mcp", None),
        ),
    ),
    Exchange(
        "the environment cannot be built",
        "broken",
        (*_ws(None, None), Step("POST /mcp", _CREATE), Step("ws /mcp"), Step("ws /mcp")),
    ),
    Exchange(
        "tools by steps",
        "tools",
        _ws(
            RESET,
            _step(type="list_tools"),
            _step(type="call_tool", tool_name="add", arguments={"a": 1}),
            _step(tool_name="add", arguments={"a": 1, "b": 5}),
            _step(type="call_tool", tool_name="describe", arguments={"word": "hi"}),
            _step(type="call_tool", tool_name="fail", arguments={"why": "q"}),
            _step(type="call_tool", tool_name="nope"),
            Step(
                "ws /ws",
                _step(type="call_tool", tool_name="add", arguments={"a": "one"}),
                "a wrong argument is one",
                {"frame": {"data": {"observation": {"tool_name": "add", "result": None, "error": _INVALID}}}},
            ),
            _step(type="call_tool", arguments={}),
            _step(message="hi"),
        ),
    ),
    Exchange("tools in a session", "tools", _in_session(*_MCP, _CREATE, _CLOSE)),
    Exchange(
        "no tools in a session", "probe", _in_session(_rpc("tools/list"), _rpc("tools/call", name="add"))
    ),
    Exchange("tools over a WebSocket of their own", "tools", _ws(*_MCP, "{bad", to="ws /mcp")),
    Exchange("tools over HTTP", "tools", tuple(Step("POST /mcp", each) for each in (*_MCP, {}, "{bad", [1]))),
    Exchange(
        "an MCP session over HTTP",
        "tools",
        (
            Step("POST /mcp", _CREATE),
            Step("POST /mcp", _rpc("tools/call", name="add", arguments={"a": 4}, session_id="$session")),
            Step("ws /ws?session_id=$session", RESET),
            Step("ws2 /ws?session_id=$session", None),
            Step("ws3 /ws?session_id=nobody", None),
            Step("ws /ws?session_id=$session", _step(type="call_tool", tool_name="add", arguments={"a": 1})),
            Step("ws /ws?session_id=$session", {"type": "close"}),
            Step("POST /mcp", _CLOSE),
            Step("POST /mcp", _CLOSE),
            Step("POST /mcp", _rpc("openenv/session/close")),
            Step("POST /mcp", _rpc("tools/list", session_id="nobody")),
        ),
    ),
    Exchange(
        "production",
        "closed",
        (
            Step("GET /health"),
            Step("POST /reset", {}, _OUR_FORM, {"status": 404, "body": {"code": "not_found"}}),
            Step("POST /step", {}, _OUR_FORM, {"status": 404, "body": {"code": "not_found"}}),
            Step("GET /state", None, _OUR_FORM, {"status": 404, "body": {"code": "not_found"}}),
            Step("POST /mcp", _rpc("tools/call", name="add", arguments={"a": 1})),
            Step("ws /ws", RESET, "nobody resets", {"frame": {"data": {"code": "EXECUTION_ERROR"}}}),
            Step("ws /ws", {"type": "mcp", "data": _rpc("tools/call", name="add", arguments={"a": 1})}),
        ),
    ),
    Exchange(
        "HTTP",
        "probe",
        (
            Step("GET /health"),
            Step("GET /metadata", None, "no version is made up", {"status": 200, "body": {"name": "Probe"}}),
            Step("GET /schema"),
            Step("POST /reset", None),
            Step("POST /reset", {"seed": 42, "episode_id": "e", "any": "extra"}),
            Step("POST /step", {"action": {"message": "hi"}, "timeout_s": 30.0, "request_id": "r1"}),
            Step(
                "GET /state",
                None,
                "requests share a session",
                {"status": 200, "body": {"episode_id": "e", "step_count": 1, "last": "hi"}},
            ),
            Step("POST /reset", {"seed": -1}),
            Step("POST /reset", {"episode_id": "x" * 256}),
            Step("POST /step", {"action": {"message": ""}}),
            Step("POST /step", {}),
            Step("POST /step", {"action": {"message": "hi"}, "timeout_s": 0}),
            Step("GET /reset", None, _OUR_FORM, {"status": 405, "body": {"code": "not_found"}}),
            Step("GET /nowhere", None, _OUR_FORM, {"status": 404, "body": {"code": "not_found"}}),
            Step("GET /list_environments"),
            Step("GET /Probe/splits", None, _OUR_FORM, {"status": 501, "body": {"code": "unsupported"}}),
            Step(
                "POST /Probe/tasks",
                {"split": "train"},
                _OUR_FORM,
                {"status": 501, "body": {"code": "unsupported"}},
            ),
            Step("POST /Probe/num_tasks", {}),
            Step("POST /Probe/task", {"split": "train"}),
            Step("POST /Probe/task_range", {"split": 1}),
        ),
    ),
)
