from __future__ import annotations

from openenv_gym.client.episode import INTERRUPTED, Episode
from openenv_gym.errors import InterruptedStepError, ResetNeededError
from openenv_gym.protocol.messages import Call, Get, Render, Reset, Set, Step


def test_there_is_no_episode_at_first() -> None:
    episode = Episode()
    assert not episode.live
    assert not episode.interrupted
    assert episode.obstacle[0] is ResetNeededError


def test_an_episode_is_interrupted_while_it_is_not_live() -> None:
    episode = Episode()
    for kind in (Step, Reset, Set, Call):
        episode.live, episode.obstacle = False, INTERRUPTED[kind]
        assert episode.interrupted
        episode.live = True
        assert not episode.interrupted


def test_what_changes_nothing_may_be_interrupted() -> None:
    assert Get not in INTERRUPTED
    assert Render not in INTERRUPTED


def test_obstacles_say_what_was_interrupted() -> None:
    assert INTERRUPTED[Call] == (
        InterruptedStepError,
        "the last method call was interrupted, so its result is unknown; call reset()",
    )
