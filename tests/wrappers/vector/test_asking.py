from __future__ import annotations

from typing import Any

import pytest

from openenv_gym.errors import RemoteEnvironmentError, SessionLostError, VectorEnvError
from openenv_gym.protocol.messages import Get
from openenv_gym.wrappers.vector.asking import ask_all


class FakePart:
    """Answers with its own name, or fails at a point."""

    def __init__(self, log: list[str], first: int, fails: str = "") -> None:
        self.log, self.first, self.stop, self.fails = log, first, first + 2, fails
        self.connection: Any = None if fails in ("post", "collect") else object()

    @property
    def lanes(self) -> range:
        return range(self.first, self.stop)

    def post(self, kind: type, *args: Any) -> None:
        self.log.append(f"post {self.first} {args}")
        if self.fails == "post":
            raise SessionLostError(f"part {self.first}")

    def collect(self) -> str:
        self.log.append(f"collect {self.first}")
        if self.fails == "collect":
            raise SessionLostError(f"part {self.first}")
        if self.fails == "lane":
            raise RemoteEnvironmentError("lane 1: KeyError", lanes=[1])
        return f"reply {self.first}"


class FakeFleet:
    def __init__(self, *fails: str) -> None:
        self.log: list[str] = []
        self.parts = [FakePart(self.log, 2 * at, name) for at, name in enumerate(fails)]


def ask(fleet: Any) -> list[Any]:
    return ask_all(fleet, Get, lambda part: ("x", part.first))


def test_all_are_asked_before_the_first_answer_is_awaited() -> None:
    fleet = FakeFleet("", "")
    assert ask(fleet) == ["reply 0", "reply 2"]
    assert fleet.log == ["post 0 ('x', 0)", "post 2 ('x', 2)", "collect 0", "collect 2"]


@pytest.mark.parametrize("point", ["post", "collect"])
def test_one_that_fails_does_not_keep_the_others_from_being_heard(point: str) -> None:
    fleet = FakeFleet(point, "", "collect")
    with pytest.raises(VectorEnvError) as caught:
        ask(fleet)
    assert caught.value.lanes == (0, 1, 4, 5)
    assert caught.value.mask.tolist() == [True, True, False, False, True, True]
    assert str(caught.value.__cause__) == "part 0"
    assert "collect 2" in fleet.log
    assert "reset_mask" in str(caught.value)


def test_a_lane_that_raises_is_the_only_one_that_failed() -> None:
    with pytest.raises(VectorEnvError, match="all episodes go on") as caught:
        ask(FakeFleet("", "lane", ""))
    assert caught.value.lanes == (3,)
    assert caught.value.errors[3].message == "lane 3: KeyError"
    assert caught.value.details == {"lanes": [3]}
