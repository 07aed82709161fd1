"""Forms: a type, or a JSON Schema, as a Gymnasium space, and values from one to the other."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from ..errors import ConfigError, ValidationError
from ..models import Action, Observation
from ..structs import BESIDE, from_map, to_map
from ..structs.hints import kept_by_hint, kind_of
from ..structs.kinds import Either, Kind, Object
from .building import Builder
from .containers import OneOfPart, chosen
from .parsing import kind_of_schema
from .parts import Part

__all__ = ["Form", "form_of", "schema_form"]

_ACTION = frozenset({"metadata"})


class Form:
    """A space, and the way from instances to its values and back.

    Attributes:
        space: The space.
        names: The names behind each ``Discrete`` that stands for a ``Literal``, an ``Enum`` or a JSON
            Schema's ``enum``, by path: ``{"$.colour": ["RED", "GREEN"]}``. Elements of lists are called
            ``$.list[]``.
    """

    def __init__(
        self,
        space: Space[Any],
        names: dict[str, list[str]],
        to_value: Callable[[Any], Any],
        from_value: Callable[[Any], Any],
    ) -> None:
        self.space = space
        self.names = names
        self._to_value = to_value
        self._from_value = from_value

    def to_value(self, instance: Any) -> Any:
        """Return ``instance`` as a value of the space.

        Args:
            instance: Of the form's type; for :func:`schema_form` a JSON value.

        Raises:
            ValidationError: It is no instance, or a field of it is wrong. ``details["path"]`` names it.
        """
        return self._to_value(instance)

    def from_value(self, value: Any) -> Any:
        """Return the instance that ``value``, of the space, stands for.

        Raises:
            ValidationError: It stands for none. ``details["path"]`` names the field.
        """
        return self._from_value(value)


@kept_by_hint
def form_of(cls: Any) -> Form:
    """Return the form of a Struct, or of a union of Structs.

    A Struct with one field (those of ``Action`` and ``Observation`` do not count) is that field's space
    itself; any other is a ``Dict`` of its fields. A union is a ``OneOf`` of these. docs/howto/typed-spaces.md
    has the space of each type.

    Raises:
        ConfigError: ``cls`` is no such class, or a type in it cannot be used.
    """
    kind = kind_of(cls)
    options = kind.options if isinstance(kind, Either) else (kind,)
    objects = [one for one in options if isinstance(one, Object)]
    if len(objects) != len(options):
        raise ConfigError(
            f"{cls!r} is no Struct or dataclass, and no union of them; derive it from openenv_gym's Action or"
            " Observation"
        )
    if len(objects) == 1:
        return _struct_form(objects[0], "$")
    return _union_form([_struct_form(one, f"$[{at}]") for at, one in enumerate(objects)], objects)


def _struct_form(kind: Object, path: str) -> Form:
    cls: Any = kind.cls
    exclude = BESIDE if issubclass(cls, Observation) else _ACTION if issubclass(cls, Action) else frozenset()
    builder = Builder()
    part = builder.object(kind, path, exclude=exclude, bare=True)

    def to_value(instance: Any) -> Any:
        if not isinstance(instance, cls):
            raise _no_instance(instance, [cls])
        return part.to_value(to_map(instance, exclude=exclude), "$")

    def from_value(value: Any) -> Any:
        return from_map(cls, part.from_value(value, "$"))

    return Form(part.space, builder.names, to_value, from_value)


def _union_form(forms: list[Form], objects: list[Object]) -> Form:
    classes: list[Any] = [one.cls for one in objects]

    def to_value(instance: Any) -> Any:
        exact = [at for at, cls in enumerate(classes) if type(instance) is cls]
        for at in [*exact, *(at for at, cls in enumerate(classes) if isinstance(instance, cls))]:
            return np.int64(at), forms[at].to_value(instance)
        raise _no_instance(instance, classes)

    def from_value(value: Any) -> Any:
        which, inner = chosen(value, len(forms), "$")
        return forms[which].from_value(inner)

    names = {path: found for form in forms for path, found in form.names.items()}
    return Form(spaces.OneOf([form.space for form in forms]), names, to_value, from_value)


def _no_instance(instance: Any, classes: list[Any]) -> ValidationError:
    wanted = " or ".join(cls.__name__ for cls in classes)
    return ValidationError(f"$: expected {wanted}, got {type(instance).__name__}", path="$")


def schema_form(schema: dict[str, Any], *, exclude: Collection[str] = (), bare: bool = True) -> Form:
    """Return the form of a JSON Schema (draft 2020-12, as pydantic and msgspec write it).

    Instances are JSON values; NaN and infinities are spelled ``"NaN"``, ``"Infinity"``, ``"-Infinity"``. What
    has no space of its own is a ``Json`` with that part of the schema.

    Args:
        schema: What the instances meet.
        exclude: Fields to leave out: ``{"metadata"}`` of an action,
            :data:`~openenv_gym.structs.BESIDE` of an observation.
        bare: Let the only field of an object stand for it.

    Raises:
        ConfigError: A reference leads nowhere, or the schema is malformed.
    """
    builder = Builder(spelled=True)
    kind = kind_of_schema(schema)

    def outermost(one: Kind, path: str) -> Part:
        if isinstance(one, Object):
            return builder.object(one, path, exclude=frozenset(exclude), bare=bare)
        return builder.build(one, path)

    if isinstance(kind, Either):
        part: Part = OneOfPart([outermost(one, f"$[{at}]") for at, one in enumerate(kind.options)])
    else:
        part = outermost(kind, "$")
    return Form(
        part.space,
        builder.names,
        lambda instance: part.to_value(instance, "$"),
        lambda value: part.from_value(value, "$"),
    )
