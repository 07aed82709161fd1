"""``/openapi.json``: the HTTP interface as an OpenAPI 3.1 document, with the environment's own schemas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import openenv_gym

__all__ = ["openapi"]

_VERSION = "1.0.0"
"""Of the interface, not of the environment: OpenEnv's tools take it for the profile ``openenv-http/1.x``."""
_SESSION_HEADER = {
    "name": "OpenEnv-Session",
    "in": "header",
    "description": "The session, as the answer to /reset names it; the cookie openenv_session does as well.",
    "schema": {"type": "string"},
}
_NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
_DEFINITIONS = "#/$defs/"
_ANY_OBJECT = {"type": "object", "additionalProperties": True}


def openapi(
    metadata: Mapping[str, Any], schemas: Mapping[str, Any], *, production: bool, token: bool
) -> dict[str, Any]:
    """Return the document.

    Args:
        metadata: What the environment says of itself; see ``/metadata``.
        schemas: JSON Schemas of ``action``, ``observation``, ``state``.
        production: Whether nobody can reset or step.
        token: Whether requests need one.
    """
    components: dict[str, Any] = {"Error": _error(), "ValidationError": _validation_error()}
    for name in ("action", "observation", "state"):
        components[name.capitalize()] = _lift(schemas[name], name.capitalize(), components)
    components["Metadata"] = _metadata_schema()
    components["ResetRequest"] = _reset_request()
    components["StepRequest"] = _step_request()
    components["StepResult"] = _step_result()
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": f"OpenEnv environment {metadata['name']}",
            "description": metadata.get("description") or "An environment server.",
            "version": _VERSION,
            "x-server": f"openenv_gym {openenv_gym.__version__}",
        },
        "paths": {**({} if production else _control()), **_information(), **_tasks()},
        "components": {"schemas": components},
    }
    if token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        for path in ("/health", "/ready"):
            document["paths"][path]["get"]["security"] = []
    return document


def _lift(schema: Mapping[str, Any], name: str, components: dict[str, Any]) -> Any:
    """Return ``schema`` with its own definitions moved to ``components``, under ``name``."""
    for key, definition in schema.get("$defs", {}).items():
        components[_component(name, key)] = _refer(definition, name)
    return _refer({key: value for key, value in schema.items() if key not in ("$defs", "$schema")}, name)


def _refer(part: Any, name: str) -> Any:
    """Return ``part`` with its references, those of discriminators too, led to the components."""
    if isinstance(part, list):
        return [_refer(item, name) for item in part]
    if isinstance(part, dict):
        return {key: _refer(value, name) for key, value in part.items()}
    if isinstance(part, str) and part.startswith(_DEFINITIONS):
        return f"#/components/schemas/{_component(name, part.removeprefix(_DEFINITIONS))}"
    return part


def _component(name: str, key: str) -> str:
    return f"{name}." + re.sub(r"[^A-Za-z0-9._-]", "_", key)


# -- schemas


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(properties: dict[str, Any], *required: str, more: bool = False) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": more}
    return {**schema, "required": list(required)} if required else schema


def _error() -> dict[str, Any]:
    text = {"type": "string"}
    return _object(
        {"code": text, "message": text, "details": _ANY_OBJECT}, "code", "message", "details", more=True
    )


def _validation_error() -> dict[str, Any]:
    step = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    text = {"type": "string"}
    item = _object(
        {"type": text, "loc": {"type": "array", "items": step}, "msg": text}, "type", "loc", "msg", more=True
    )
    return {
        "allOf": [_ref("Error"), _object({"detail": {"type": "array", "items": item}}, "detail", more=True)]
    }


def _metadata_schema() -> dict[str, Any]:
    text = {"type": ["string", "null"]}
    names = ("description", "version", "author", "documentation_url", "readme_content")
    properties = {"name": {"type": "string"}, **dict.fromkeys(names, text)}
    return _object(properties, "name", more=True)


def _reset_request() -> dict[str, Any]:
    return _object(
        {
            "seed": {"type": ["integer", "null"], "minimum": 0},
            "episode_id": {"type": ["string", "null"], "maxLength": 255},
        },
        more=True,
    )


def _step_request() -> dict[str, Any]:
    return _object(
        {
            "action": _ref("Action"),
            "timeout_s": {
                "type": ["number", "null"],
                "exclusiveMinimum": 0,
                "description": "Seconds after which the session is given up.",
            },
            "request_id": {
                "type": ["string", "null"],
                "description": "A step that is repeated with the id of the last one is answered as that was,"
                " and not executed again.",
            },
        },
        "action",
    )


def _step_result() -> dict[str, Any]:
    flag = {"type": "boolean"}
    properties = {
        "observation": _ref("Observation"),
        "reward": {"anyOf": [*_NUMBER["anyOf"], flag, {"type": "null"}]},
        "done": flag,
        "terminated": flag,
        "truncated": flag,
        "metadata": _ANY_OBJECT,
    }
    return _object(properties, "observation", "reward", "done", more=True)


# -- paths


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _operation(
    name: str, tag: str, summary: str, result: dict[str, Any], body: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    responses = {
        "200": {"description": "As asked.", "content": _json(result)},
        "422": {
            "description": "Something in the request is wrong.",
            "content": _json(_ref("ValidationError")),
        },
        "default": {"description": "It failed; the message says why.", "content": _json(_ref("Error"))},
    }
    operation: dict[str, Any] = {
        "operationId": name,
        "tags": [tag],
        "summary": summary,
        "responses": responses,
        **more,
    }
    if body is None:
        del responses["422"]
    else:
        operation["requestBody"] = {"required": True, "content": _json(body)}
    return operation


def _control() -> dict[str, Any]:
    tag = "Environment Control"
    session: dict[str, Any] = {"parameters": [_SESSION_HEADER]}
    result = _ref("StepResult")
    reset = _operation("reset", tag, "Start an episode", result, _ref("ResetRequest"), **session)
    reset["requestBody"]["required"] = False
    reset["responses"]["200"]["headers"] = {"OpenEnv-Session": {"schema": {"type": "string"}}}
    step = _operation("step", tag, "Carry out an action", result, _ref("StepRequest"), **session)
    state = _operation("state", "State Management", "Where the episode stands", _ref("State"), **session)
    return {"/reset": {"post": reset}, "/step": {"post": step}, "/state": {"get": state}}


def _information() -> dict[str, Any]:
    status = _object({"status": {"type": "string"}}, "status")
    whole: dict[str, Any] = {"type": "object", "additionalProperties": True}
    schemas = _object(
        dict.fromkeys(("action", "observation", "state"), whole), "action", "observation", "state", more=True
    )
    rpc = {"type": "object", "additionalProperties": True}
    info = "Environment Info"
    return {
        "/health": {"get": _operation("health", "Health", "Whether the server lives", status)},
        "/ready": {"get": _operation("ready", "Health", "Whether sessions can be had", status)},
        "/capacity": {"get": _operation("capacity", "Health", "Sessions, now and at most", whole)},
        "/metadata": {"get": _operation("metadata", info, "What the environment is", _ref("Metadata"))},
        "/schema": {"get": _operation("schema", "Schema", "JSON Schemas of its values", schemas)},
        "/mcp": {"post": _operation("mcp", "Tools", "JSON-RPC: tools as MCP has them", rpc, rpc)},
    }


def _tasks() -> dict[str, Any]:
    tag = "Task API"
    split = {"split": {"type": "string"}}
    bound = {"type": ["integer", "null"]}
    name = {"name": "env_name", "in": "path", "required": True, "schema": {"type": "string"}}
    bodies = {
        "tasks": _object(split, "split"),
        "num_tasks": _object(split, "split"),
        "task": _object({**split, "index": {"type": "integer"}}, "split", "index"),
        "task_range": _object({**split, "start": bound, "stop": bound}, "split"),
    }
    names = {"type": "array", "items": {"type": "string"}}
    splits = {"type": "array", "items": _ANY_OBJECT}
    paths = {
        "/list_environments": {
            "get": _operation("list_environments", tag, "The name of the environment", names)
        },
        "/{env_name}/splits": {
            "get": _operation("splits", tag, "Splits of its tasks", splits, parameters=[name])
        },
    }
    for last, body in bodies.items():
        operation = _operation(last, tag, f"Its {last}", _ANY_OBJECT, body, parameters=[name])
        paths[f"/{{env_name}}/{last}"] = {"post": operation}
    return paths
