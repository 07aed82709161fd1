"""Whether values of a type can be read back from maps, before there is one."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from ..errors import ConfigError
from .hints import kind_of
from .kinds import Either, Kind, Object, walk

__all__ = ["check_readable"]


def check_readable(hint: Any) -> None:
    """Raise ConfigError if :func:`.from_map` could read no value of ``hint``, whatever it is.

    msgspec must see from a value which option of a union it is. The error names the class and the field.
    """
    for one in _read_apart(hint):
        why = _refusal(one)
        if why is not None:
            place, why = _innermost(one, why)
            raise ConfigError(f"{place}: no value of it could be read: {why}{_advice(kind_of(one))}")


def _read_apart(hint: Any) -> list[Any]:
    """Return the types one of which :func:`.from_map` chooses before msgspec looks."""
    kind = kind_of(hint)
    options = kind.options if isinstance(kind, Either) else ()
    objects = [one for one in options if isinstance(one, Object)]
    if len(objects) < 2 or all(one.tag for one in objects):
        return [hint]
    return [one.cls for one in objects]


def _refusal(hint: Any) -> str | None:
    """Return why msgspec decodes nothing as ``hint``; ``None``: it does."""
    try:
        msgspec.convert(None, hint, dec_hook=lambda cls, data: data)
    except msgspec.ValidationError:
        return None
    except TypeError as exc:
        return str(exc).replace("`", "")
    return None


def _innermost(hint: Any, why: str) -> tuple[str, str]:
    """Return the field that is to blame, as ``Class.field``, and why."""
    for cls in _classes(hint):
        for name, part in typing.get_type_hints(cls, include_extras=True).items():
            found = _refusal(part)
            if found is not None and all(_refusal(inner) is None for inner in _classes(part)):
                return f"{cls.__name__}.{name}", found
    return hint.__name__ if hint in (*_classes(hint),) else str(hint), why


def _classes(hint: Any) -> Iterator[Any]:
    return (one.cls for one in walk(kind_of(hint)) if isinstance(one, Object))


def _advice(kind: Kind) -> str:
    if not any(isinstance(one, Either) for one in walk(kind)):
        return ""
    return "; make each option of the union a Struct with a tag: class Left(msgspec.Struct, tag=True)"
