"""Environments are closed on their thread and let go of, whatever one of them raises."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import gymnasium as gym
import pytest

from openenv_gym.servers.access import Access, release


class _Env(gym.Env[Any, Any]):
    def __init__(self, closed: list[str], name: str, *, raises: bool = False, cycle: bool = False) -> None:
        self._closed, self._name, self._raises = closed, name, raises
        self.me = self if cycle else None

    def close(self) -> None:
        self._closed.append(self._name)
        if self._raises:
            raise RuntimeError(f"{self._name} does not close")


def test_all_are_closed_and_the_first_failure_is_raised() -> None:
    closed: list[str] = []
    owners = [Access(_Env(closed, name, raises=name != "a")) for name in "abc"]
    with pytest.raises(RuntimeError, match="b does not close"):
        release(owners)
    assert closed == ["a", "b", "c"]


@pytest.mark.parametrize("cycle", [False, True])
def test_nothing_of_them_is_left(cycle: bool) -> None:
    owners = [Access(gym.Wrapper(_Env([], "a", cycle=cycle))) for _ in range(2)]
    remains = [weakref.ref(owner.env.unwrapped) for owner in owners]
    gc.disable()
    try:
        release(owners)
        assert [remain() for remain in remains] == [None, None]
    finally:
        gc.enable()
