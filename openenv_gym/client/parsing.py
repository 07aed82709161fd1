"""Actions to what is sent, and replies to results, where types are Structs, pydantic models or dicts."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import ValidationError
from ..models import CallToolAction, CallToolObservation, ListToolsObservation, Observation, StepResult, Tool
from ..structs import check_readable, from_map, to_map

__all__ = [
    "action_map",
    "check_types",
    "parsed_result",
    "parsed_state",
    "tool_of",
    "types_in_bases",
    "unwrapped",
]

_TYPES = ("action_type", "observation_type", "state_type")
#: What stands beside an observation, and in our own Structs also in it.
_BESIDE = ("done", "terminated", "truncated", "reward", "metadata")


def types_in_bases(cls: type, base: type) -> None:
    """Set the types of a client class that names them: ``class C(EnvClient[Guess, Hint, State])``."""
    for generic in cls.__dict__.get("__orig_bases__", ()):
        origin = typing.get_origin(generic)
        if not isinstance(origin, type) or not issubclass(origin, base):
            continue
        for name, kind in zip(_TYPES, typing.get_args(generic), strict=False):
            if name not in cls.__dict__ and (isinstance(kind, type) or _is_union_of_structs(kind)):
                setattr(cls, name, kind if kind is not dict else None)


def check_types(cls: Any) -> None:
    """Raise ConfigError if a client class names types that no reply could be read as."""
    for kind in (cls.observation_type, cls.state_type):
        if kind is not None and not hasattr(kind, "model_validate"):
            check_readable(kind)


def action_map(action: Any) -> dict[str, Any]:
    """Return the fields of an action; ``metadata`` is left out where it is empty.

    Raises:
        ValidationError: It is no Struct, dataclass, pydantic model or dict.
    """
    if isinstance(action, msgspec.Struct) or (
        dataclasses.is_dataclass(action) and not isinstance(action, type)
    ):
        fields = to_map(action)
        if isinstance(action, CallToolAction) and fields.get("timeout") is None:
            fields.pop("timeout", None)
    elif isinstance(action, Mapping):
        return dict(action)
    elif hasattr(action, "model_dump"):
        fields = dict(action.model_dump())
    else:
        raise ValidationError(
            f"an action is a Struct, or a dict of its fields, not a {type(action).__name__}", path="$"
        )
    if not fields.get("metadata", True):
        del fields["metadata"]
    return fields


def parsed_result(cls: Any, payload: Mapping[str, Any]) -> StepResult[Any]:
    """Return the result in a reply to ``reset`` or ``step``.

    Args:
        cls: What observations are; ``None``: dicts. Answers to tool actions are those of
            :mod:`openenv_gym.models` where ``cls`` has no such fields itself.
        payload: ``observation``, ``reward``, ``done``, ``metadata``, ``terminated``, ``truncated``.

    Raises:
        ValidationError: The observation is no ``cls``. ``details["path"]`` names the field.
    """
    done, truncated = bool(payload.get("done")), bool(payload.get("truncated"))
    result: StepResult[Any] = StepResult(
        None,
        payload.get("reward"),
        done,
        payload.get("metadata") or {},
        bool(payload.get("terminated", done and not truncated)),
        truncated,
    )
    result.observation = _observation(cls, payload.get("observation") or {}, result)
    return result


def parsed_state(cls: Any, payload: Any) -> Any:
    """Return the state in a reply, an instance of ``cls``; ``None``: a dict.

    Raises:
        ValidationError: It is no ``cls``. ``details["path"]`` names the field.
    """
    return payload if cls is None else _instance(cls, payload)


def tool_of(payload: Mapping[str, Any]) -> Tool:
    """Return a tool, whichever way its schemas are spelled.

    Raises:
        ValidationError: It is none.
    """
    fields = {
        "name": payload.get("name"),
        "description": payload.get("description") or "",
        "input_schema": payload.get("input_schema") or payload.get("inputSchema") or {},
        "output_schema": payload.get("output_schema") or payload.get("outputSchema"),
    }
    return from_map(Tool, fields, where="$.tools[]")


def unwrapped(result: Any) -> Any:
    """Return what a tool returned, taken out of the result object that MCP libraries put around it."""
    if isinstance(result, dict) and "data" in result and ("content" in result or "is_error" in result):
        return result["data"]
    return result


def _is_union_of_structs(kind: Any) -> bool:
    options = typing.get_args(kind) if isinstance(kind, types.UnionType) else ()
    return bool(options) and all(isinstance(one, type) and issubclass(one, msgspec.Struct) for one in options)


def _member(options: tuple[Any, ...], fields: Mapping[str, Any]) -> Any:
    """Return which of several Structs the fields are of."""
    fitting = [one for one in options if _fits(one, fields)]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting and ("tools" in fields or "tool_name" in fields):
        return Observation
    names = ", ".join(one.__name__ for one in options)
    raise ValidationError(
        f"what came back may be {'several' if fitting else 'none'} of {names}: it has the fields"
        f" {', '.join(sorted(fields))}; tags tell them apart, as in class {options[0].__name__}(Observation,"
        " tag=True)",
        path="$",
    )


def _fits(cls: Any, fields: Mapping[str, Any]) -> bool:
    config = cls.__struct_config__
    if config.tag_field is not None:
        return bool(fields.get(config.tag_field) == config.tag)
    return fields.keys() <= {*cls.__struct_encode_fields__, *_BESIDE}


def _observation(cls: Any, fields: Mapping[str, Any], result: StepResult[Any]) -> Any:
    if isinstance(cls, types.UnionType):
        cls = _member(typing.get_args(cls), fields)
    names = fields.keys()
    if "tools" in names and cls is not None and _lists_tools(cls, fields):
        return _completed(ListToolsObservation(tools=[tool_of(tool) for tool in fields["tools"]]), result)
    if "tool_name" in names:
        fields = {**fields, "result": unwrapped(fields.get("result"))}
        if cls is not None and "tool_name" not in _own_fields(cls):
            cls = CallToolObservation
    if cls is None:
        return dict(fields)
    if issubclass(cls, Observation):
        if not names.isdisjoint(_BESIDE):
            fields = {name: value for name, value in fields.items() if name not in _BESIDE}
            names = fields.keys()
        if names.isdisjoint(cls.__struct_encode_fields__):
            _check_kinship(cls, fields)
        return _completed(_instance(cls, fields), result)
    own = _own_fields(cls)
    beside = {name: getattr(result, name) for name in _BESIDE if name in own}
    return _instance(cls, {**beside, **fields})


def _lists_tools(cls: Any, fields: Mapping[str, Any]) -> bool:
    return isinstance(fields["tools"], list) and "tools" not in _own_fields(cls)


def _own_fields(cls: Any) -> Any:
    return getattr(cls, "__struct_fields__", None) or getattr(cls, "model_fields", ())


def _check_kinship(cls: type[Observation], fields: Mapping[str, Any]) -> None:
    """Refuse what is no ``cls``, with which it shares no field: all would be defaults, and more ignored."""
    config = cls.__struct_config__
    own = set(cls.__struct_encode_fields__).difference(_BESIDE)
    came = fields.keys() - {config.tag_field}
    if own and came and own.isdisjoint(came):
        raise ValidationError(
            f"what came back is no {cls.__name__}: it has the fields {', '.join(sorted(came))}, and none of"
            f" {', '.join(sorted(own))}. Does the server at base_url host another environment?",
            path="$",
        )


def _completed(observation: Observation, result: StepResult[Any]) -> Observation:
    """Set what stands beside an observation, and in it as well."""
    if observation.__struct_config__.frozen:
        for name in _BESIDE:
            msgspec.structs.force_setattr(observation, name, getattr(result, name))
        return observation
    observation.done = result.done
    observation.terminated = result.terminated
    observation.truncated = result.truncated
    observation.reward = result.reward
    observation.metadata = result.metadata
    return observation


def _instance(cls: Any, fields: Any) -> Any:
    try:
        return cls.model_validate(fields) if hasattr(cls, "model_validate") else from_map(cls, fields)
    except ValidationError as exc:
        raise ValidationError(f"what came back is no {cls.__name__}: {exc.message}", **exc.details) from exc
    except ValueError as exc:  # of pydantic, which says which field
        raise ValidationError(f"what came back is no {cls.__name__}: {exc}", path="$") from exc
