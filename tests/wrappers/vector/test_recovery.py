from __future__ import annotations

from typing import Any

import pytest
from gymnasium.vector import AutoresetMode

from openenv_gym.client.opening import Opener
from openenv_gym.client.settings import ClientSettings
from openenv_gym.errors import (
    OpenEnvError,
    RemoteEnvironmentError,
    ServerConnectionError,
    SessionLostError,
    WorkerCrashedError,
)
from openenv_gym.wrappers.vector.fleet import Part
from openenv_gym.wrappers.vector.recovery import Recovery


def recovery(**kwargs: Any) -> Recovery:
    return Recovery(**{"truncates": True, "mode": AutoresetMode.NEXT_STEP, "most": 2, **kwargs})


def part() -> Part:
    return Part(Opener(ClientSettings(base_url="ws://h:1"), None), 0, 4)


@pytest.mark.parametrize(
    ("error", "good"),
    [
        (WorkerCrashedError("x"), True),
        (ServerConnectionError("x"), True),
        (RemoteEnvironmentError("x"), False),
        (OpenEnvError("x"), False),
    ],
)
def test_a_loss_is_made_good_and_what_an_environment_raised_is_not(error: OpenEnvError, good: bool) -> None:
    assert recovery().makes_good(error) is good
    assert not recovery(truncates=False).makes_good(error)


@pytest.mark.parametrize(
    ("mode", "at_once", "later"),
    [
        (AutoresetMode.SAME_STEP, True, False),
        (AutoresetMode.NEXT_STEP, False, True),
        (AutoresetMode.DISABLED, False, False),
        (None, False, False),
    ],
)
def test_the_next_episode_begins_as_the_mode_says(mode: Any, at_once: bool, later: bool) -> None:
    found = recovery(mode=mode)
    assert (found.at_once, found.later) == (at_once, later)


def test_a_session_is_restarted_so_often_in_a_row_and_no_more() -> None:
    lost, found = part(), recovery()
    for _ in range(2):
        lost.lose(WorkerCrashedError("killed again", exit_code=7))
        assert found.refusal(lost) is None
    lost.lose(WorkerCrashedError("killed again", exit_code=7))
    refusal = found.refusal(lost)
    assert isinstance(refusal, SessionLostError)
    assert "lost 3 times in a row, and max_restarts=2" in str(refusal)
    assert "killed again" in str(refusal)
    assert refusal.details["exit_code"] == 7
    assert recovery(most=None).refusal(lost) is None


def test_steady_steps_bring_the_budget_back() -> None:
    lost = part()
    lost.lose(WorkerCrashedError("x"))
    lost.lose(WorkerCrashedError("x"))
    for _ in range(99):
        lost.stepped()
    assert lost.losses == 2
    lost.stepped()
    assert lost.losses == 0


def test_a_part_that_was_never_lost_has_a_cause_all_the_same() -> None:
    assert isinstance(recovery().cause_of(part()), SessionLostError)
