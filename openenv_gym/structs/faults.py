"""What msgspec found wrong, in words that name field, value and way out."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ..errors import ValidationError
from .kinds import Choice, Either, Fixed, Items, Kind, Mapping, Object

__all__ = ["explained"]

_WHERE = re.compile(r"(?P<text>.*?)(?: - at (?:`key` in )?`(?P<path>\$[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_MISSING = "Object missing required field `"
_UNKNOWN = "Object contains unknown field `"
_NO_CHOICE = ("Invalid enum value", "Invalid value")
_NOTHING: Any = object()


def explained(exc: msgspec.ValidationError, kind: Kind, data: Any, where: str) -> ValidationError:
    """Return ``exc`` as an error of this package.

    Args:
        exc: What msgspec raised.
        kind: What was wanted.
        data: What was given.
        where: What errors call ``data``.
    """
    match = _WHERE.fullmatch(str(exc))
    assert match is not None
    text, path = match["text"], match["path"] or "$"
    found, wanted = _follow(path, data, kind)
    place = where + path[1:]
    for opening in (_MISSING, _UNKNOWN):
        if text.startswith(opening):
            name = text[len(opening) :].rstrip("`")
            return _about_field(f"{place}.{name}", opening is _MISSING, wanted)
    text = text.replace("`", "")
    if text.startswith(_NO_CHOICE) and isinstance(wanted, Choice):
        text = f"Expected one of {', '.join(map(repr, wanted.values))}"
    if found is not _NOTHING and text.startswith("Expected"):
        text += f": {_short(found)}" if ", got " in text else f", got {_short(found)}"
    return ValidationError(f"{place}: {text[:1].lower()}{text[1:]}", path=place)


def _about_field(place: str, missing: bool, owner: Kind | None) -> ValidationError:
    if missing:
        return ValidationError(f"{place}: missing; it is required", path=place)
    names = ", ".join(each.name for each in owner.fields) if isinstance(owner, Object) else ""
    known = f"; the fields are {names}" if names else ""
    return ValidationError(f"{place}: there is no such field{known}", path=place)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _follow(path: str, data: Any, kind: Kind | None) -> tuple[Any, Kind | None]:
    """Return the value at ``path``, and what was wanted there, as far as both can be told."""
    for name, index in _STEP.findall(path):
        kind = _below(kind, data, name, index)
        try:
            data = data[name] if name else data[int(index)]
        except (KeyError, IndexError, TypeError, ValueError):
            data = _NOTHING
    return data, _chosen(kind, data)


def _chosen(kind: Kind | None, data: Any) -> Kind | None:
    if not isinstance(kind, Either):
        return kind
    objects = [one for one in kind.options if isinstance(one, Object)]
    if isinstance(data, dict):
        fitting = [one for one in objects if one.tag and data.get(one.tag[0]) == one.tag[1]]
        return fitting[0] if fitting else next((one for one in objects if one.tag is None), None)
    choices = [one for one in kind.options if isinstance(one, Choice)]
    return choices[0] if len(choices) == 1 else None


def _below(kind: Kind | None, data: Any, name: str, index: str) -> Kind | None:
    match _chosen(kind, data):
        case Object() as owner if name:
            return next((each.kind for each in owner.fields if each.name == name), None)
        case Items() | Mapping() as owner:
            return owner.item
        case Fixed() as owner if index.isdigit() and int(index) < len(owner.items):
            return owner.items[int(index)]
    return None
