from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from openenv_gym.testing import same
from openenv_gym.testing.vector_case import Case, NotCheckedError, dispose, unordered
from tests.support.testenvs import CounterEnv, RenderEnv, SpaceEnv

from .vectors import cartpole


def case(make: Any = cartpole, **options: Any) -> Case:
    chosen: dict[str, Any] = {"seed": 3, "steps": 40, "policy": None, "reference": None, **options}
    return Case(SyncVectorEnv([make] * 3), **chosen)


def test_a_rollout_repeats_itself() -> None:
    subject = case()
    trace = subject.trace
    assert [frame.kind for frame in trace] == ["reset", *["step"] * 40]
    assert same([frame.result for frame in subject.repeat(trace)], [frame.result for frame in trace])
    assert subject.repeatable is None


def test_lanes_that_ended_are_reset_in_disabled() -> None:
    subject = Case(
        SyncVectorEnv([cartpole] * 3, autoreset_mode="Disabled"),
        seed=3,
        steps=60,
        policy=None,
        reference=None,
    )
    trace = subject.trace
    ends = [at for at, frame in enumerate(trace) if frame.ended]
    assert ends
    assert all(trace[at + 1].kind == "reset" for at in ends)
    assert same(trace[ends[0] + 1].given[1]["reset_mask"], trace[ends[0]].done)


def test_results_are_kept_although_the_env_reuses_them() -> None:
    subject = Case(SyncVectorEnv([cartpole] * 2, copy=False), seed=3, steps=5, policy=None, reference=None)
    first, last = subject.trace[0], subject.trace[-1]
    assert first.live[0] is last.live[0]
    assert not same(first.result[0], last.result[0])


def test_each_lane_gets_its_part() -> None:
    subject = case(lambda: SpaceEnv("dict"), steps=7)
    frame = subject.trace[-1]
    lanes = subject.lanes(frame)
    assert [lane.reward for lane in lanes] == frame.result[1].tolist()
    assert all(lane.terminated and not lane.truncated for lane in lanes)
    assert all(subject.envs.single_observation_space.contains(lane.observation) for lane in lanes)
    assert [set(lane.info) for lane in lanes] == [{"digest", "action"}] * 3
    assert subject.lanes(subject.trace[0])[1].reward is None


def test_actions_are_taken_apart_and_put_together() -> None:
    subject = case(lambda: SpaceEnv("dict"), steps=1)
    actions = subject.trace[1].given
    assert same(subject.batch(subject.actions(actions)), actions)


def test_the_prefix_ends_well_before_an_episode_does() -> None:
    assert len(case().prefix) == 4
    assert len(case(lambda: SpaceEnv("discrete"), steps=2).prefix) == 2


def test_the_prefix_of_short_episodes_is_a_reset() -> None:
    subject = case(lambda: gym.wrappers.TimeLimit(RenderEnv(), 2))
    assert subject.end == 2
    assert [frame.kind for frame in subject.prefix] == ["reset"]


def test_no_end_is_said() -> None:
    with pytest.raises(NotCheckedError, match="no episode ended"):
        _ = case(CounterEnv, steps=2).end


def test_what_does_not_repeat_itself_is_not_judged_by_it() -> None:
    count = iter(range(1000))
    subject = case(RenderEnv, steps=2)
    subject.envs.reset = lambda **kwargs: (np.full(3, next(count)), {})  # type: ignore[method-assign]
    assert str(subject.repeatable).startswith("call 0 (reset): result[0]")
    with pytest.raises(NotCheckedError, match="different results"):
        subject.require_repeatable()


def test_another_env_takes_a_factory() -> None:
    subject = case()
    with pytest.raises(NotCheckedError, match="pass a factory"):
        subject.fresh()
    before = subject.envs
    subject.renew()
    assert subject.envs is before
    subject.make = lambda: SyncVectorEnv([cartpole])
    subject.renew()
    assert before.closed
    assert subject.n == 1


def test_a_rule_does_not_begin_where_episodes_ended() -> None:
    subject = case()
    subject.make = lambda: SyncVectorEnv([cartpole] * 3)
    before = subject.envs
    subject.repeat(subject.trace[: subject.end])
    subject.settle()
    assert subject.envs is before
    subject.step(subject.trace[subject.end].given)
    subject.settle()
    assert subject.envs is not before
    subject.reset()
    subject.settle()
    assert not subject.envs.closed


@pytest.mark.filterwarnings("ignore:.*pending call:UserWarning")
def test_an_async_env_is_closed_in_any_state() -> None:
    envs = AsyncVectorEnv([CounterEnv] * 2)
    envs.reset_async()
    envs.parent_pipes[1].recv()
    dispose(envs)
    assert envs.closed


def test_dicts_are_compared_in_one_order() -> None:
    assert same(unordered({"b": ({"d": 1, "c": 2},), "a": 0}), {"a": 0, "b": ({"c": 2, "d": 1},)})
