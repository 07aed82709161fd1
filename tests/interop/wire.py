"""Steps of an exchange carried out, and the answers of two servers compared."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import httpx
import websockets.sync.client
from websockets.exceptions import ConnectionClosed

__all__ = ["Conversation", "differences", "judged", "play"]


class Conversation:
    """Connections to one server.

    Args:
        base_url: The server.
    """

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._session = ""
        self._http = httpx.Client(base_url=base_url, timeout=30)
        self._sockets: dict[str, Any] = {}
        self._stack = contextlib.ExitStack()
        self._stack.callback(self._http.close)

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def say(self, to: str, send: Any) -> dict[str, Any]:
        """Carry out a step; return ``{"frame"}``, ``{"closed"}`` or ``{"status", "body"}``."""
        where = to.replace("$session", self._session)
        kind, path = where.split(" ", 1)
        data = send if isinstance(send, str | bytes | None) else json.dumps(send)
        if isinstance(data, str):
            data = data.replace("$session", self._session)
        answer = self._frame(where, path, data) if kind.startswith("ws") else self._request(kind, path, data)
        self._session = _session_in(answer) or self._session
        return answer

    def _frame(self, where: str, path: str, data: str | bytes | None) -> dict[str, Any]:
        if where not in self._sockets:
            url = self._base_url.replace("http", "ws", 1) + path
            self._sockets[where] = self._stack.enter_context(websockets.sync.client.connect(url, proxy=None))
        socket = self._sockets[where]
        try:
            if data is not None:
                socket.send(data)
            return {"frame": json.loads(socket.recv(30))}
        except ConnectionClosed:
            return {"closed": socket.close_code}

    def _request(self, method: str, path: str, data: Any) -> dict[str, Any]:
        headers = {"content-type": "application/json"} if data is not None else {}
        reply = self._http.request(method, path, content=data, headers=headers)
        try:
            body = reply.json()
        except ValueError:
            body = reply.text
        return {"status": reply.status_code, "body": body}


def play(base_url: str, steps: Any) -> list[dict[str, Any]]:
    """Carry out steps and return the answers."""
    with Conversation(base_url) as conversation:
        return [conversation.say(step.to, step.send) for step in steps]


def _session_in(answer: dict[str, Any]) -> str:
    body = answer.get("body") or answer.get("frame", {}).get("data")
    result = body.get("result") if isinstance(body, dict) else None
    return str(result.get("session_id", "")) if isinstance(result, dict) else ""


# -- comparing


_WORDS = {
    "message",
    "msg",
    "text",
    "description",
    "name",
    "session_id",
    "episode_id",
    "factory_name",
    "version",
}
"""Keys whose texts are each server's own."""
_FAULTS = {"errors", "detail"}
_MAY_BE_MORE = re.compile(r"\.(id|error\.data)$")
_FREE = {"input", "url", "ctx", "outputSchema", "output_schema", "meta", "title", "readme_content"}


def differences(theirs: Any, ours: Any, path: str = "$") -> list[str]:
    """Return where an answer of ours is none that a reader of theirs would take.

    Everything they say we say, in the same types; more may be said, except inside an observation. What they
    leave ``null`` or empty may be missing. Texts for people may differ. An error may have data where theirs
    has none, and repeat the id of a request that is none (JSON-RPC 2.0, section 5).
    """
    if theirs is None and _MAY_BE_MORE.search(path):
        return []
    key = path.rpartition(".")[2].partition("[")[0]
    if key in _FAULTS and isinstance(theirs, list) and isinstance(ours, list):
        wanted = {"type", "loc", "msg"}
        return [] if ours and all(wanted <= set(each) for each in ours) else [f"{path}: {ours}"]
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return _in_objects(theirs, ours, path, key)
    if isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            return [f"{path}: {len(theirs)} items became {len(ours)}"]
        pairs = zip(theirs, ours, strict=True)
        return [line for at, pair in enumerate(pairs) for line in differences(*pair, f"{path}[{at}]")]
    if type(theirs) is not type(ours):
        return [f"{path}: {theirs!r} became {ours!r}"]
    return [] if theirs == ours or key in _WORDS else [f"{path}: {theirs!r} became {ours!r}"]


def _in_objects(theirs: dict[str, Any], ours: dict[str, Any], path: str, key: str) -> list[str]:
    found = []
    if "inputSchema" in theirs:  # MCP libraries of the second generation, and we, write snake case
        theirs = {**theirs, "input_schema": theirs["inputSchema"]}
        del theirs["inputSchema"]
    for name, value in theirs.items():
        if name in _FREE or (name not in ours and value in (None, {}, [])):
            continue
        if name not in ours:
            found.append(f"{path}.{name}: {value!r} is missing")
        elif isinstance(value, dict) and "properties" in value:
            found += _in_schemas(value, ours[name], f"{path}.{name}")
        else:
            found += differences(value, ours[name], f"{path}.{name}")
    if key == "observation":
        found += [f"{path}.{name} is new" for name in ours if name not in theirs and name != "metadata"]
    return found


def _in_schemas(theirs: dict[str, Any], ours: dict[str, Any], path: str) -> list[str]:
    """Compare JSON Schemas by the properties that they name and require."""
    found = [
        f"{path}.{name} is missing" for name in theirs["properties"] if name not in ours.get("properties", {})
    ]
    if sorted(theirs.get("required", [])) != sorted(ours.get("required", [])):
        found.append(f"{path}: {theirs.get('required')} are required, became {ours.get('required')}")
    return found


def judged(steps: Any, theirs: list[Any], ours: list[Any]) -> list[str]:
    """Return what is wrong with our answers: differences without reason, and reasons without difference."""
    found = []
    for step, expected, got in zip(steps, theirs, ours, strict=True):
        lines = differences(expected, got)
        if step.differs:
            wrong = differences(step.ours, got) if lines else ["is as theirs, and said to differ"]
            lines = [f"{line} ({step.differs})" for line in wrong]
        found += [f"{step.to} {step.send!r}: {line}" for line in lines]
    return found
