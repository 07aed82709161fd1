"""Two spaces for what Gymnasium's ten cannot hold: any text, and any JSON value.

Importing this module lets them travel. In Gymnasium's vector envs they batch like ``Text``, as a tuple; as
for ``Sequence`` and ``Graph``, ``AsyncVectorEnv`` needs ``shared_memory=False`` with them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import gymnasium as gym
import msgspec
import numpy as np
from gymnasium.spaces import utils
from gymnasium.vector.utils import batch_differing_spaces, create_empty_array

from .errors import ConfigError
from .protocol.columns import register_column
from .protocol.leaves import JsonColumn, TextColumn, json_flaw
from .protocol.specs import register_space
from .protocol.values import pack
from .sampling import sample_json, sample_text

__all__ = ["Json", "Unicode", "has_json_type"]

_TRIES = 100


class Unicode(gym.Space[str]):
    """Any text up to a length; no character set has to be listed.

    Args:
        max_length: Most characters (code points).
        min_length: Fewest characters.
        seed: Seeds the samples.

    Raises:
        ConfigError: The lengths are no integers with ``0 <= min_length <= max_length``.
    """

    def __init__(
        self, max_length: int, min_length: int = 0, seed: int | np.random.Generator | None = None
    ) -> None:
        for name, length in (("max_length", max_length), ("min_length", min_length)):
            if not isinstance(length, int | np.integer) or isinstance(length, bool):
                raise ConfigError(f"{name} must be an int, not {length!r}")
        if not 0 <= min_length <= max_length:
            raise ConfigError(
                f"0 <= min_length <= max_length must hold, not 0 <= {min_length} <= {max_length}"
            )
        self.min_length = int(min_length)
        self.max_length = int(max_length)
        super().__init__(dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """``False``: there is no array of fixed size for it."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """Return printable text in several scripts, at most 32 characters longer than ``min_length``.

        Raises:
            gymnasium.error.Error: A mask is given; there is none for this space.
        """
        _refuse_masks(self, mask, probability)
        longest = min(self.max_length, self.min_length + 32)
        return sample_text(self.np_random, int(self.np_random.integers(self.min_length, longest + 1)))

    def contains(self, x: Any) -> bool:
        """Return whether ``x`` is a ``str`` of a length within the bounds."""
        return isinstance(x, str) and self.min_length <= len(x) <= self.max_length

    def __repr__(self) -> str:
        return f"Unicode({self.max_length}, min_length={self.min_length})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Unicode)
            and self.min_length == other.min_length
            and self.max_length == other.max_length
        )


class Json(gym.Space[Any]):
    """Any JSON value: ``None``, bool, int, float, str, lists of them, dicts of them with str keys.

    Args:
        schema: A JSON Schema that the values meet. Checking more than its ``type`` needs the
            package ``jsonschema``.
        seed: Seeds the samples.

    Raises:
        ConfigError: ``schema`` is neither ``None`` nor a dict of JSON values.
    """

    def __init__(
        self, schema: dict[str, Any] | None = None, seed: int | np.random.Generator | None = None
    ) -> None:
        if schema is not None and (type(schema) is not dict or json_flaw(schema)):
            raise ConfigError(f"a schema is a dict of JSON values, not {str(schema)[:100]}")
        self.schema = deepcopy(schema)
        self._valid: Callable[[Any], bool] | None = None
        super().__init__(seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """``False``: there is no array of fixed size for it."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> Any:
        """Return a small JSON value that meets the schema.

        Raises:
            gymnasium.error.Error: A mask is given; there is none for this space.
            ConfigError: No sample was found that meets the schema, or ``jsonschema`` is missing.
        """
        _refuse_masks(self, mask, probability)
        for _ in range(_TRIES):
            value = sample_json(self.np_random, self.schema)
            if self.contains(value):
                return value
        raise ConfigError(
            "no sample that meets the schema was found; samples know type, enum, const, properties, required,"
            " items, anyOf, oneOf, allOf, $ref, multipleOf, format, bounds of numbers and lengths, but no"
            " pattern"
        )

    def contains(self, x: Any) -> bool:
        """Return whether ``x`` is a JSON value (NaN and infinities are none) that meets the schema.

        Raises:
            ConfigError: There is a schema, and it is malformed or ``jsonschema`` is missing.
        """
        if json_flaw(x):
            return False
        try:
            json.dumps(x, allow_nan=False)
        except ValueError:
            return False
        if self.schema is None:
            return True
        if self._valid is None:
            self._valid = _validator(self.schema)
        return self._valid(x)

    def __repr__(self) -> str:
        return "Json()" if self.schema is None else f"Json({json.dumps(self.schema)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Json) and self.schema == other.schema

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_valid": None}


_TYPES: dict[str, Any] = {
    "null": type(None),
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "string": str,
    "array": list,
    "object": dict,
}


def has_json_type(value: Any, name: str) -> bool:
    """Return whether a JSON value is of a type, as JSON Schema's keyword ``type`` calls it."""
    if isinstance(value, bool):
        return name == "boolean"
    whole = name == "integer" and isinstance(value, float) and value.is_integer()
    return whole or isinstance(value, _TYPES[name])


def _validator(schema: dict[str, Any]) -> Callable[[Any], bool]:
    """Return what checks values against ``schema``, which reaches for nothing outside itself."""
    kind, more = schema.get("type"), schema.get("additionalProperties", True)
    simple = schema.keys() <= {"type", "additionalProperties"} and more is True
    if simple and isinstance(kind, str) and kind in _TYPES:
        return partial(has_json_type, name=kind)
    try:
        from jsonschema import exceptions, validators
        from referencing import Registry
    except ImportError as exc:
        raise ConfigError(
            "a Json space with a schema needs jsonschema: pip install 'openenv-gym[json]'"
        ) from exc
    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except exceptions.SchemaError as exc:
        raise ConfigError(f"the schema of a Json space is malformed: {exc.message}") from exc
    validator = kind(schema, registry=Registry())

    def valid(value: Any) -> bool:
        try:
            return bool(validator.is_valid(value))
        except Exception as exc:  # whatever a reference that leads nowhere, or an odd pattern, raises
            raise ConfigError(f"the schema of a Json space cannot be used: {exc}") from exc

    return valid


def _refuse_masks(space: gym.Space[Any], mask: Any, probability: Any) -> None:
    if mask is not None or probability is not None:
        raise gym.error.Error(f"{type(space).__name__}.sample takes no mask and no probability")


class _UnicodeFields(msgspec.Struct, forbid_unknown_fields=True):
    max_length: int
    min_length: int = 0


class _JsonFields(msgspec.Struct, forbid_unknown_fields=True):
    schema: Any = None


def _register() -> None:
    register_space(
        Unicode,
        "unicode",
        _UnicodeFields,
        lambda space, walk: {"max_length": space.max_length, "min_length": space.min_length},
        lambda fields, walk: Unicode(fields.max_length, fields.min_length),
    )
    register_space(
        Json,
        "json",
        _JsonFields,
        lambda space, walk: {"schema": pack(space.schema, f"the schema of {walk.path}")},
        lambda fields, walk: Json(fields.schema),
    )
    register_column(Unicode, TextColumn)
    register_column(Json, JsonColumn)
    for cls in (Unicode, Json):
        utils.flatdim.register(cls, _flatdim)
        utils.flatten.register(cls, lambda space, x: x)
        utils.unflatten.register(cls, lambda space, x: x)
        utils.flatten_space.register(cls, deepcopy)
        utils.is_space_dtype_shape_equiv.register(cls, lambda one, other: type(one) is type(other))
        batch_differing_spaces.register(
            cls, lambda spaces: gym.spaces.Tuple([deepcopy(one) for one in spaces])
        )
    create_empty_array.register(Unicode, lambda space, n=1, fn=None: (" " * space.min_length,) * n)
    create_empty_array.register(Json, lambda space, n=1, fn=None: (None,) * n)


def _flatdim(space: gym.Space[Any]) -> int:
    raise ValueError(f"{space} cannot be flattened: its values have no fixed size")


_register()
