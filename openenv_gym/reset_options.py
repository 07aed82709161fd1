"""What an author's ``reset`` takes, read from its signature, and what it is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, get_type_hints

import msgspec

from .errors import ConfigError, ValidationError
from .structs import check_readable, from_map

__all__ = ["ResetOptions"]

_OURS = ("seed", "episode_id")
"""Arguments that are no options; they are checked before they get here."""


class ResetOptions:
    """The keyword arguments of a ``reset``.

    Args:
        reset: The method, bound already.

    Raises:
        ConfigError: The annotation of an option cannot be resolved, or no value can be held against it.
    """

    def __init__(self, reset: Callable[..., Any]) -> None:
        parameters = inspect.signature(reset).parameters.values()
        named = [p for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
        others = next((p for p in parameters if p.kind is p.VAR_KEYWORD), None)
        options = [p for p in named if p.name not in _OURS]
        hints = _hints(reset, [*options, others] if others else options)
        self._known = frozenset(p.name for p in named)
        self._open = others is not None
        self._other: Any = hints[others.name] if others else Any
        self._options = msgspec.defstruct(
            "Options", [_field(p, hints[p.name]) for p in options], kw_only=True
        )
        self._names = frozenset(self._options.__struct_fields__)
        try:
            check_readable(self._options)
            check_readable(self._other)
        except ConfigError as exc:
            raise ConfigError(f"options of reset() cannot be checked: {exc.message}") from exc

    def bind(self, seed: int | None, episode_id: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of a call; ``reset`` need not take a seed or the name of an episode.

        Raises:
            ValidationError: It takes no such option, or no seed, or an option is missing or does not fit its
                annotation. ``details["path"]`` names it, as in ``$.difficulty``.
        """
        asked = dict(options)
        if seed is not None:
            asked["seed"] = seed
        for name in asked:
            self._check_name(name)
        arguments = asked | self._checked({name: asked[name] for name in asked if name != "seed"})
        if self._open or "episode_id" in self._known:
            arguments["episode_id"] = episode_id
        return arguments

    def _check_name(self, name: Any) -> None:
        # A method has got its "self" already.
        named = isinstance(name, str) and name != "self"
        if not named or not (self._open or name in self._known):
            takes = "anything else" if self._open else ", ".join(sorted(self._known)) or "nothing"
            raise ValidationError(
                f"reset() of this environment takes no {name!r}; it takes {takes}", path=f"$.{name}"
            )

    def _checked(self, options: dict[str, Any]) -> dict[str, Any]:
        try:
            known = {name: value for name, value in options.items() if name in self._names}
            found: Any = from_map(self._options, known)
            others = {name: self._as_other(name, options[name]) for name in options if name not in known}
        except ValidationError as exc:
            raise ValidationError(f"reset() of this environment: {exc.message}", **exc.details) from None
        return {name: getattr(found, name) for name in known} | others

    def _as_other(self, name: str, value: Any) -> Any:
        return from_map(self._other, value, where=f"$.{name}")


def _hints(reset: Callable[..., Any], parameters: list[inspect.Parameter]) -> dict[str, Any]:
    """Return the types of parameters; the other annotations may be for type checkers alone."""
    function = inspect.unwrap(getattr(reset, "__func__", reset))
    found: dict[str, Any] = {}
    for each in parameters:
        annotation = Any if each.annotation is each.empty else each.annotation
        owner = SimpleNamespace(__annotations__={each.name: annotation})
        try:
            found |= get_type_hints(owner, getattr(function, "__globals__", {}), include_extras=True)
        except Exception as exc:
            raise ConfigError(
                f"the annotation of the option {each.name!r} of reset() cannot be resolved ({exc}); what it"
                " names must be visible in its module",
                argument=each.name,
            ) from exc
    return found


def _field(parameter: inspect.Parameter, kind: Any) -> Any:
    if parameter.default is parameter.empty:
        return parameter.name, kind
    return parameter.name, kind, None  # only what was given is passed on
