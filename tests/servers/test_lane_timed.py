"""One lane says how long its steps took, and refuses what only many lanes can do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openenv_gym.errors import RemoteProtocolError, ResetNeededError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.columns import column_codec
from openenv_gym.servers.lane import Lane, TimedLane
from openenv_gym.servers.targets import resolve


@pytest.fixture(params=[Lane, TimedLane])
def lane(request: pytest.FixtureRequest) -> Any:
    lane = request.param(resolve("tests.support.testenvs:Sleep-v0").build({"unit": 0.01}))
    yield lane
    lane.close()


def _action(lane: Lane, action: int) -> Any:
    return column_codec(lane.env.action_space, actions=True).encode_one(np.int64(action), "action")


def test_steps_are_timed_if_that_is_asked_for(lane: Lane) -> None:
    lane.answer(m.Reset(1))
    actions = [2] + [0] * 20
    replies = [lane.answer(m.Step(2 + at, _action(lane, action))) for at, action in enumerate(actions)]
    if type(lane) is Lane:
        assert {reply.timing for reply in replies} == {None}  # type: ignore[union-attr]
        return
    (codec, waited, worked), *others = [reply.timing for reply in replies]  # type: ignore[union-attr]
    assert codec > 0 and waited == 0
    quickest = min(quick for _, _, quick in others)  # of several: a busy machine may stop any of them
    assert worked >= 20_000_000 > quickest > 0


def test_a_step_that_fails_leaves_the_environment_as_it_was(lane: Lane) -> None:
    step = lane._step
    with pytest.raises(ResetNeededError):
        lane.answer(m.Step(1, _action(lane, 0)))
    assert lane._step == step


@pytest.mark.parametrize("fields", [{"lanes": b"\0\0\0\0"}, {"wait": 1}, {"patience": 1.0}])
def test_lanes_cannot_be_named(lane: Lane, fields: dict[str, Any]) -> None:
    lane.answer(m.Reset(1))
    with pytest.raises(RemoteProtocolError, match="capability 'lanes'"):
        lane.answer(m.Step(2, _action(lane, 0), **fields))


def test_there_is_no_mask(lane: Lane) -> None:
    with pytest.raises(RemoteProtocolError, match="has a mask"):
        lane.answer(m.Reset(1, None, None, b"\1"))
