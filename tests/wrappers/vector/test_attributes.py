from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

from openenv_gym.errors import (
    ConfigError,
    ForbiddenError,
    RemoteEnvironmentError,
    ValueNotCarriedError,
    VectorEnvError,
)
from openenv_gym.registration import mirror
from openenv_gym.testing import difference
from openenv_gym.wrappers.vector import RemoteVectorEnv
from openenv_gym.wrappers.vector.attributes import LaneAttributes
from tests.support import testenvs

from .rollouts import local, making

mirror()
assert testenvs.SPACE_IDS


@pytest.mark.parametrize("lanes_per_worker", [None, 2])
def test_attributes_and_methods_answer_for_each_lane_as_gymnasiums_do(lanes_per_worker: int | None) -> None:
    with making("Counter-v0", 3, lanes_per_worker=lanes_per_worker) as envs:
        sync = local("Counter-v0", 3)
        for vector in (envs, sync):
            vector.reset(seed=0)
        for ask in (
            lambda vector: vector.get_attr("count"),
            lambda vector: vector.call("count"),
            lambda vector: vector.call("bump"),
            lambda vector: vector.get_attr("bump"),
            lambda vector: vector.call("bump", 3),
            lambda vector: vector.call("bump", by=4),
            lambda vector: vector.set_attr("level", [1, 2, 3]),
            lambda vector: vector.get_attr("level"),
            lambda vector: vector.set_attr("level", 9),
            lambda vector: vector.get_attr("level"),
            lambda vector: vector.get_attr("np_random_seed"),
        ):
            assert difference(ask(envs), ask(sync)) is None
        sync.close()


@pytest.mark.parametrize("lanes_per_worker", [None, 2])
def test_some_lanes_are_reached_without_the_others(lanes_per_worker: int | None) -> None:
    with making("Counter-v0", 5, lanes_per_worker=lanes_per_worker) as envs:
        envs.reset(seed=0)
        assert envs.call_lanes([3, 0], "bump", by=4) == (4, 4)
        assert envs.call_lanes([], "bump") == ()
        assert envs.get_attr("total") == (4, 0, 0, 4, 0)
        envs.set_attr("level", 1)
        envs.set_attr_lanes([4, 1], "level", [40, 10])
        envs.set_attr_lanes(np.array([2]), "level", 7)
        assert envs.get_attr("level") == (1, 10, 7, 1, 40)
        for lanes in ([5], [-1], [1, 1]):
            with pytest.raises(ValueError, match="different ones from 0 to 4"):
                envs.call_lanes(lanes, "bump")
        with pytest.raises(ValueError, match="1 values were given for 2 lanes"):
            envs.set_attr_lanes([0, 1], "level", [1])
        with pytest.raises(AttributeError, match="no attribute 'depth'"):
            envs.call_lanes([1], "depth")


def test_native_lanes_are_not_reached_one_by_one() -> None:
    with making("CartPole-v1", 2, lanes="native") as envs, pytest.raises(ConfigError, match="reach all"):
        envs.call_lanes([0], "close")


def test_frames_are_a_tuple_with_one_a_lane() -> None:
    with making("Render-v0", 3, render_mode="rgb_array", lanes_per_worker=2) as envs:
        sync = local("Render-v0", 3, render_mode="rgb_array")
        for vector in (envs, sync):
            vector.reset(seed=0)
        frames = envs.render()
        assert difference(frames, sync.render()) is None
        assert difference(envs.call("render"), frames) is None
        sync.close()


def test_lanes_of_a_typed_environment_tell_their_states() -> None:
    target = "tests.support.typedenvs:GuessNumber"
    with contextlib.closing(RemoteVectorEnv(target, num_envs=2, provider="inprocess", highest=1)) as envs:
        envs.reset(options={"episode_id": "one"})
        envs.step(np.array([1, 5]))
        assert envs.call("remote_state") == ({"episode_id": "one", "step_count": 1},) * 2
        assert envs.get_attr("highest") == (1, 1)
        envs.set_attr("highest", [1, 2])
        assert envs.get_attr("highest") == (1, 2)


def test_a_name_that_no_lane_has_is_an_attribute_error() -> None:
    with making("Counter-v0", 2) as envs:
        envs.reset()
        with pytest.raises(AttributeError, match="the lanes have no attribute 'depth'") as caught:
            envs.get_attr("depth")
        assert isinstance(caught.value.__cause__, VectorEnvError)
        with pytest.raises(AttributeError):
            envs.call("depth", 1)


def test_an_attribute_error_within_a_method_is_no_missing_method() -> None:
    with making("Counter-v0", 2, lanes_per_worker=1) as envs:
        envs.reset()
        with pytest.raises(VectorEnvError, match="lane 1: AttributeError: .*'depth'") as caught:
            envs.call("get_wrapper_attr", "depth")
        assert caught.value.errors[1].message.startswith("lane 1: ")
        with pytest.raises(VectorEnvError, match="all episodes go on"):
            envs.call("bump", None)


def test_what_is_private_or_raises_is_told() -> None:
    with making("Crash-v0", 2, env_kwargs={"where": "method", "at": 1}, lane_threads=1) as envs:
        envs.reset()
        with pytest.raises(VectorEnvError) as caught:
            envs.call("_call", "init")
        assert isinstance(caught.value.errors[0], ForbiddenError)
        with pytest.raises(VectorEnvError, match="KeyError: 'the environment failed'") as caught:
            envs.call("bump", 1)
        assert isinstance(caught.value.__cause__, RemoteEnvironmentError)
        assert envs.step(np.zeros(2, np.int64))[0].tolist() == [1, 1]


def test_values_are_as_many_as_lanes() -> None:
    with making("Counter-v0", 3) as envs:
        with pytest.raises(ValueError, match="2 values were given for 3 lanes"):
            envs.set_attr("level", (1, 2))


def test_what_does_not_travel_is_named() -> None:
    with making("Counter-v0", 2) as envs:
        envs.reset()
        with pytest.raises(ValueNotCarriedError, match=r"bump\(\) argument 0"):
            envs.call("bump", print)
        with pytest.raises(ValueNotCarriedError, match="level of lane 1"):
            envs.set_attr("level", [1, print])
        assert envs.get_attr("level") == (0, 0)


class Native(LaneAttributes):
    """Answers as the sessions of a vector class do, one value each."""

    native = True
    num_envs = 3

    def __init__(self, *values: Any) -> None:
        self.values = values
        self.asked: list[tuple[str, list[Any]]] = []

    def _ask(self, kind: type, arguments: Any, take: Any) -> Any:
        parts: list[Any] = [type("P", (), {"first": 0, "stop": 2}), type("P", (), {"first": 2, "stop": 3})]
        self.asked.append((kind.__name__, [arguments(part) for part in parts]))
        answers = [type("R", (), {"values": [value], "frames": [value]}) for value in self.values]
        return take(answers)


def test_a_vector_class_answers_by_its_own_methods() -> None:
    native = Native((1, 2), (3,))
    assert native.call("bump", 1) == (1, 2, 3)
    assert native.get_attr("level") == (1, 2, 3)
    native.set_attr("level", [4, 5, 6])
    assert native.asked == [
        ("Call", [("call", ["bump", 1], {})] * 2),
        ("Call", [("get_attr", ["level"], {})] * 2),
        ("Call", [("set_attr", ["level", [4, 5]], {}), ("set_attr", ["level", [6]], {})]),
    ]
    assert native.render() == (1, 2, 3)
    assert Native(None, None).render() is None
