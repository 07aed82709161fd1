"""From the signature of a function to the JSON Schema of its arguments, and back."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

from ..errors import ConfigError, ValidationError
from ..structs import check_readable, from_map, schema_of
from .marking import Mark
from .results import NO_FORM, SPELLED, ToolResult, plain

__all__ = ["Signature"]


class Signature:
    """The arguments and the result of a tool.

    Args:
        function: The tool; a method is bound already.
        mark: Its name and what else was said of it.

    Attributes:
        description: What agents read.
        input_schema: JSON Schema (2020-12) of the arguments, an object.
        output_schema: JSON Schema of the result, an object: a result that is none is ``result`` in it.
            ``None`` where the signature does not say, leaves open whether it is one or which of several types
            a value is of, or names what JSON does not have.

    Raises:
        ConfigError: An annotation cannot be resolved, or no JSON value would fit it.
    """

    def __init__(self, function: Callable[..., Any], mark: Mark) -> None:
        self._name = mark.name
        doc = mark.description if mark.description is not None else inspect.getdoc(function)
        self.description = (doc or "").strip()
        try:
            hints = get_type_hints(function, include_extras=True)
        except Exception as exc:
            raise ConfigError(
                f"tool {mark.name!r}: its annotations cannot be resolved ({exc}); "
                "what they name must be visible in its module"
            ) from exc
        returned = hints.pop("return", Any)
        self._open = False
        fields = []
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                self._open = True
            else:
                fields.append(_field(parameter, hints.get(parameter.name, Any)))
        self._arguments = msgspec.defstruct(
            "Arguments", fields, kw_only=True, forbid_unknown_fields=not self._open
        )
        self.input_schema = self._input_schema()
        self.output_schema, self._wraps = _output_schema(returned)
        self._results = msgspec.defstruct("Result", [("result", returned)]) if self.output_schema else None

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the function takes them.

        Raises:
            ValidationError: One is wrong, missing or unknown; ``details["path"]`` names it, as in
                ``$.arguments.message``.
        """
        try:
            call: Any = from_map(self._arguments, dict(arguments), where="$.arguments")
        except ValidationError as exc:
            raise ValidationError(
                f"tool {self._name!r}: {exc.message}", **exc.details, tool=self._name
            ) from None
        known = self._arguments.__struct_fields__
        return {name: getattr(call, name) if name in known else value for name, value in arguments.items()}

    def check(self, result: Any) -> None:
        """Hold a result against :attr:`output_schema`, which agents were promised.

        Raises:
            ValidationError: It does not fit.
        """
        if self._results is None:
            return
        if isinstance(result, ToolResult):
            result = result.structured_content
            if self._wraps:
                result = result.get("result") if isinstance(result, dict) else result
        try:
            shown = plain(result)
        except NO_FORM:  # whoever passes it on says so
            return
        from_map(self._results, {"result": shown})

    def _input_schema(self) -> dict[str, Any]:
        try:
            schema = schema_of(self._arguments)
            check_readable(self._arguments)
        except ConfigError as exc:
            raise ConfigError(f"tool {self._name!r}: its arguments cannot be checked: {exc}") from exc
        schema.pop("title", None)
        schema["additionalProperties"] = self._open
        return schema


def _field(parameter: inspect.Parameter, kind: Any) -> Any:
    if parameter.default is parameter.empty:
        return parameter.name, kind
    default = parameter.default
    if default is None or isinstance(default, bool | int | float | str):
        return parameter.name, kind, default
    # Only what was given is passed on: the function's own default counts, this one makes the field optional.
    return parameter.name, kind, msgspec.field(default_factory=lambda: default)


def _output_schema(returned: Any) -> tuple[dict[str, Any] | None, bool]:
    """Return the schema of what is returned, and whether that is ``result`` in it."""
    if returned is Any or returned is type(None) or returned is ToolResult:
        return None, False
    try:
        schema = _with_spelled_floats(schema_of(returned))
        check_readable(returned)
    except ConfigError:
        return None, False
    definitions = schema.pop("$defs", {})
    schema = definitions.get(str(schema.get("$ref")).removeprefix("#/$defs/"), schema)
    wraps = schema.get("type") != "object"
    if wraps:
        if _may_be_object(schema):  # then whether the result is wrapped would depend on the result
            return None, False
        schema = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
    return ({**schema, "$defs": definitions} if definitions else schema), wraps


def _with_spelled_floats(schema: Any) -> Any:
    """Return a schema that allows for the floats which JSON lacks, as results spell them."""
    if not isinstance(schema, dict):
        return schema
    shown = dict(schema)
    for key in ("properties", "$defs"):
        if key in shown:
            shown[key] = {name: _with_spelled_floats(part) for name, part in shown[key].items()}
    for key in ("anyOf", "prefixItems"):
        if key in shown:
            shown[key] = [_with_spelled_floats(part) for part in shown[key]]
    for key in ("items", "additionalProperties"):
        if key in shown:
            shown[key] = _with_spelled_floats(shown[key])
    return {"anyOf": [shown, {"enum": list(SPELLED)}]} if shown == {"type": "number"} else shown


def _may_be_object(schema: dict[str, Any]) -> bool:
    if "anyOf" in schema:
        return any(map(_may_be_object, schema["anyOf"]))
    return schema.get("type", "object") == "object" and not schema.keys() & {"enum", "const"}
