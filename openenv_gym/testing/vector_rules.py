"""What a rule of the contract is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from .vector_case import Case

__all__ = ["Check", "Rule", "rule"]

Check = Callable[[Case], Iterator[str]]


class Rule(NamedTuple):
    """A sentence of the contract.

    Attributes:
        name: What reports call it.
        text: What holds when it is kept.
        remedy: What to do when it is not.
        check: Yields what is wrong; raises :class:`~.vector_case.NotCheckedError` where it cannot tell.
        rolls: Whether it needs a rollout that works.
    """

    name: str
    text: str
    remedy: str
    check: Check
    rolls: bool


def rule(text: str, *, remedy: str, rolls: bool = True) -> Callable[[Check], Rule]:
    """Make a rule of the decorated check; its name is the function's: ``_reset_mask``, ``reset-mask``."""

    def made(check: Check) -> Rule:
        return Rule(check.__name__.strip("_").replace("_", "-"), text, remedy, check, rolls)

    return made
