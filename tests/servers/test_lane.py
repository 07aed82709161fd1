"""A lane answers requests as its environment would, value for value, and lets nobody reach private names."""

from __future__ import annotations

import struct
from typing import Any

import gymnasium as gym
import msgspec
import numpy as np
import pytest
from gymnasium import spaces

from openenv_gym.errors import (
    ForbiddenError,
    RemoteEnvironmentError,
    RemoteProtocolError,
    ResetNeededError,
    UnsupportedError,
    ValueNotCarriedError,
)
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import decode_reply, encode
from openenv_gym.protocol.columns import column_codec
from openenv_gym.protocol.values import Opaque, pack, unpack_ext
from openenv_gym.servers.lane import Lane, facts_of


class _Env(gym.Env[Any, Any]):
    """Returns what the test tells it to."""

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "thing": object()}  # noqa: RUF012
    render_mode = "ansi"

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = spaces.Discrete(4)
        self.observation: Any = np.zeros(2, np.float32)
        self.result: tuple[Any, Any, Any] = (0.0, False, False)
        self.info: dict[str, Any] = {}
        self.calls: list[Any] = []
        self._secret = 42
        self.gravity = 9.8
        self.frame: Any = "a frame"

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.calls.append(("reset", seed, options))
        return self.observation, self.info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self.calls.append(("step", action, type(action)))
        return self.observation, *self.result, self.info

    def render(self) -> Any:
        return self.frame

    def add(self, left: Any, *, right: Any = 1) -> Any:
        return left + right

    def handle(self) -> Any:
        return {"h": [object()]}

    def close(self) -> None:
        self.calls.append("close")


class _Wrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Has an attribute of its own."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.outer = 1


_ACTIONS = column_codec(spaces.Discrete(4), actions=True)
_OBSERVATIONS = column_codec(spaces.Box(-1, 1, (2,), np.float32))


def _step(id: int = 2, action: Any = 1) -> m.Step:
    return m.Step(id, _ACTIONS.encode_one(action, "action", str))


@pytest.fixture
def env() -> _Env:
    return _Env()


@pytest.fixture
def lane(env: _Env) -> Lane:
    lane = Lane(env)
    lane.answer(m.Reset(1))
    env.calls.clear()
    return lane


def _arrived(reply: m.Reply) -> Any:
    """Return what a client gets."""
    return decode_reply(encode(reply))


@pytest.mark.parametrize(
    ("terminated", "truncated", "flags"),
    [
        (False, False, 0),
        (True, False, 1),
        (False, True, 2),
        (True, True, 3),
        (np.bool_(False), False, 4),
        (np.bool_(True), False, 5),
        (False, np.bool_(False), 8),
        (False, np.bool_(True), 10),
        (np.bool_(True), np.bool_(True), 15),
    ],
)
def test_flags_say_how_the_episode_ended_and_of_which_type_they_were(
    env: _Env, lane: Lane, terminated: Any, truncated: Any, flags: int
) -> None:
    env.result = (0.0, terminated, truncated)
    reply = lane.answer(_step())
    assert isinstance(reply, m.Transition)
    assert (reply.flags, reply.warnings) == (bytes([flags]), [])


@pytest.mark.parametrize(
    ("terminated", "truncated", "flags", "name"),
    [
        (1, False, 1, "terminated"),
        (0, False, 0, "terminated"),
        (False, "yes", 2, "truncated"),
        (False, None, 0, "t"),
    ],
)
def test_a_flag_that_is_no_bool_arrives_as_one_with_a_warning(
    env: _Env, lane: Lane, terminated: Any, truncated: Any, flags: int, name: str
) -> None:
    env.result = (0.0, terminated, truncated)
    reply = lane.answer(_step())
    assert isinstance(reply, m.Transition)
    assert reply.flags == bytes([flags])
    [warning] = reply.warnings
    assert warning.startswith(name) and "not a bool" in warning


@pytest.mark.parametrize("reward", [0.0, -0.0, 1.5, float("nan"), float("-inf"), 5e-324])
def test_a_float_reward_travels_as_its_eight_bytes(env: _Env, lane: Lane, reward: float) -> None:
    env.result = (reward, False, False)
    reply = _arrived(lane.answer(_step()))
    assert reply.rewards == struct.pack("<d", reward)


@pytest.mark.parametrize(
    "reward",
    [
        1,
        True,
        None,
        2**70,
        np.float32(0.1),
        np.float64(0.1),
        np.int64(3),
        np.array(0.5, np.float32),
        np.ones(2),
    ],
)
def test_any_other_reward_keeps_its_type(env: _Env, lane: Lane, reward: Any) -> None:
    env.result = (reward, False, False)
    [arrived] = _arrived(lane.answer(_step())).rewards
    assert type(arrived) is type(reward)
    assert getattr(arrived, "dtype", None) == getattr(reward, "dtype", None)
    np.testing.assert_array_equal(arrived, reward)


def test_a_subclass_of_float_is_not_taken_for_one(env: _Env, lane: Lane) -> None:
    class Money(float):
        pass

    env.result = (Money(1.5), False, False)
    reply = lane.answer(_step())
    assert isinstance(reply, m.Transition)
    assert reply.rewards == [1.5]


def test_a_reward_without_a_form_is_refused_by_name(env: _Env, lane: Lane) -> None:
    env.result = (object(), False, False)
    with pytest.raises(ValueNotCarriedError) as caught:
        lane.answer(_step())
    assert caught.value.details["path"] == "reward"


@pytest.mark.filterwarnings("ignore:a value of type")
def test_an_empty_info_takes_no_byte_and_another_arrives_whole(env: _Env, lane: Lane) -> None:
    reply = lane.answer(_step())
    assert isinstance(reply, m.Transition) and reply.infos is None
    reset = lane.answer(m.Reset(3))
    assert isinstance(reset, m.Observation) and reset.infos is None
    env.info = {"x": np.float32(0.5), "t": (1, None), "o": env}
    for answer in (lane.answer(_step(4)), lane.answer(m.Reset(5))):
        [info] = _arrived(answer).infos
        opaque = info.pop("o")
        assert info == {"x": np.float32(0.5), "t": (1, None)}
        assert isinstance(opaque, Opaque)


def test_observations_are_laid_out_by_the_space(env: _Env, lane: Lane) -> None:
    env.observation = np.array([0.25, float("nan")], np.float32)
    reply = _arrived(lane.answer(_step()))
    observation = _OBSERVATIONS.decode_one(reply.observations)
    assert (observation.dtype, observation.tobytes()) == (np.float32, env.observation.tobytes())


def test_an_observation_without_a_form_is_refused_by_its_path(env: _Env, lane: Lane) -> None:
    env.observation = {"x": object()}
    with pytest.raises(ValueNotCarriedError) as caught:
        lane.answer(_step())
    assert str(caught.value.details["path"]).startswith("obs")


def test_a_warning_is_told_once_and_those_of_reset_too(env: _Env, lane: Lane) -> None:
    env.observation = np.zeros(2, np.float64)
    first = lane.answer(m.Reset(2))
    assert isinstance(first, m.Observation)
    assert len(first.warnings) == 1 and first.warnings[0].startswith("obs")
    env.result = (0.0, 1, False)
    second = lane.answer(_step(3))
    assert isinstance(second, m.Transition)
    assert len(second.warnings) == 1 and second.warnings[0].startswith("terminated")
    third = lane.answer(_step(4))
    assert isinstance(third, m.Transition) and third.warnings == []


def test_the_action_arrives_as_gymnasium_would_give_it(env: _Env, lane: Lane) -> None:
    lane.answer(_step(2, np.int64(3)))
    lane.answer(_step(3, 2))
    assert env.calls == [("step", 3, np.int64), ("step", 2, int)]


@pytest.mark.parametrize("actions", [b"", b"123", None, [1, 2], {"values": []}])
def test_actions_that_are_none_of_the_space_do_not_reach_the_environment(
    env: _Env, lane: Lane, actions: Any
) -> None:
    with pytest.raises((RemoteProtocolError, ValueNotCarriedError)):
        lane.answer(m.Step(2, actions))
    assert env.calls == []


def test_seed_and_options_reach_the_environment(env: _Env, lane: Lane) -> None:
    lane.answer(m.Reset(2, [7], {"a": (1, 2)}))
    lane.answer(m.Reset(3, [None]))
    lane.answer(m.Reset(4))
    lane.answer(m.Reset(5, [2**70]))
    assert env.calls == [
        ("reset", 7, {"a": (1, 2)}),
        ("reset", None, None),
        ("reset", None, None),
        ("reset", 2**70, None),
    ]


@pytest.mark.parametrize("seeds", [[], [1, 2]])
def test_one_lane_has_one_seed(env: _Env, lane: Lane, seeds: list[int]) -> None:
    with pytest.raises(RemoteProtocolError, match=f"{len(seeds)} seeds for one lane"):
        lane.answer(m.Reset(2, seeds))
    assert env.calls == []


def test_there_is_no_step_before_a_reset(env: _Env) -> None:
    lane = Lane(env)
    with pytest.raises(ResetNeededError, match="reset"):
        lane.answer(_step(1))
    assert env.calls == []


def test_there_is_no_step_after_a_reset_that_failed(env: _Env, lane: Lane) -> None:
    env.observation = object()
    env.reset = lambda **_: 1 / 0  # type: ignore[assignment]
    with pytest.raises(ZeroDivisionError):
        lane.answer(m.Reset(2))
    with pytest.raises(ResetNeededError):
        lane.answer(_step(3))
    assert env.calls == []


def test_what_the_environment_raises_is_passed_on_and_the_episode_goes_on(env: _Env, lane: Lane) -> None:
    env.result = (1.0,)  # type: ignore[assignment]
    with pytest.raises(ValueError, match="not enough values"):
        lane.answer(_step())
    env.result = (1.0, False, False)
    assert isinstance(lane.answer(_step(3)), m.Transition)


@pytest.mark.parametrize(
    "frame", ["text", None, np.arange(12, dtype=np.uint8).reshape(2, 2, 3), [np.zeros(2)]]
)
def test_frames_arrive_as_they_are(env: _Env, lane: Lane, frame: Any) -> None:
    env.frame = frame
    [arrived] = _arrived(lane.answer(m.Render(2))).frames
    assert type(arrived) is type(frame)
    np.testing.assert_array_equal(arrived, frame)


def test_attributes_are_read_set_and_called(env: _Env, lane: Lane) -> None:
    assert lane.answer(m.Get(2, "gravity")) == m.Value(2, [9.8])
    assert lane.answer(m.Get(3, "add")) == m.Value(3, [None], True)
    assert lane.answer(m.Set(4, "gravity", [1.6])) == m.Value(4, [None])
    assert env.gravity == 1.6
    assert lane.answer(m.Call(5, "add", [1], {"right": 3})) == m.Value(5, [4])
    for request in (m.Call(6, "add", [1], lanes=bytes(4)), m.Set(6, "gravity", [1], lanes=bytes(4))):
        with pytest.raises(RemoteProtocolError, match="names lanes"):
            lane.answer(request)


def test_attributes_are_looked_up_through_the_wrappers(env: _Env) -> None:
    wrapper = _Wrapper(env)
    lane = Lane(wrapper)
    assert lane.answer(m.Get(1, "outer")) == m.Value(1, [1])
    assert lane.answer(m.Get(2, "gravity")) == m.Value(2, [9.8])
    lane.answer(m.Set(3, "gravity", [1.6]))
    assert (env.gravity, "gravity" in vars(wrapper)) == (1.6, False)
    lane.answer(m.Set(4, "outer", [2]))
    assert (wrapper.outer, hasattr(env, "outer")) == (2, False)


@pytest.mark.parametrize("request_", [m.Get(2, "missing"), m.Call(2, "missing")])
def test_a_missing_attribute_is_an_attribute_error(lane: Lane, request_: Any) -> None:
    with pytest.raises(AttributeError, match="missing"):
        lane.answer(request_)


def test_what_is_no_method_cannot_be_called(lane: Lane) -> None:
    with pytest.raises(RemoteEnvironmentError, match="'gravity' is not a method") as caught:
        lane.answer(m.Call(2, "gravity"))
    assert caught.value.details["type"] == "TypeError"


@pytest.mark.parametrize(
    "request_", [m.Get(2, "_secret"), m.Set(2, "_secret", [1]), m.Call(2, "__init__"), m.Get(2, "__class__")]
)
def test_private_names_are_out_of_reach(env: _Env, lane: Lane, request_: Any) -> None:
    with pytest.raises(ForbiddenError, match="private"):
        lane.answer(request_)
    assert env._secret == 42


@pytest.mark.parametrize("request_", [m.Get(2, "gravity"), m.Set(2, "gravity", [1]), m.Call(2, "add", [1])])
def test_attributes_can_be_switched_off(env: _Env, request_: Any) -> None:
    lane = Lane(env, attributes=False)
    with pytest.raises(ForbiddenError, match="--attributes off"):
        lane.answer(request_)
    assert env.gravity == 9.8


def test_values_of_attributes_without_a_form_are_refused_by_their_path(env: _Env, lane: Lane) -> None:
    env.gravity = {"h": object()}  # type: ignore[assignment]
    with pytest.raises(ValueNotCarriedError) as caught:
        lane.answer(m.Get(2, "gravity"))
    assert caught.value.details["path"] == "gravity['h']"
    with pytest.raises(ValueNotCarriedError) as caught:
        lane.answer(m.Call(3, "handle"))
    assert caught.value.details["path"] == "handle()['h'][0]"


@pytest.mark.parametrize("values", [[], [1, 2]])
def test_one_lane_is_set_one_value(env: _Env, lane: Lane, values: list[int]) -> None:
    with pytest.raises(RemoteProtocolError, match="values for one lane"):
        lane.answer(m.Set(2, "gravity", values))
    assert env.gravity == 9.8


def test_a_request_that_the_lane_does_not_know_is_named(lane: Lane) -> None:
    with pytest.raises(RemoteProtocolError, match="no 'ask'"):
        lane.answer(m.Ask(2, "metadata"))


def test_a_plain_environment_has_no_state(lane: Lane) -> None:
    with pytest.raises(UnsupportedError, match="has no state; read its attributes"):
        lane.answer(m.State(2))


def test_closing_closes_the_environment(env: _Env, lane: Lane) -> None:
    lane.close()
    assert env.calls == ["close"]


@pytest.mark.filterwarnings("ignore:a value of type")
def test_the_facts_can_be_sent_and_say_what_the_environment_is(env: _Env) -> None:
    facts = facts_of(env, "Thing-v0", {"max_episode_steps": 5})
    arrived = msgspec.msgpack.decode(msgspec.msgpack.encode(facts), ext_hook=unpack_ext)
    assert (arrived["target"], arrived["render_mode"]) == ("Thing-v0", "ansi")
    assert arrived["spec"] == {"max_episode_steps": 5}
    assert arrived["metadata"]["render_modes"] == ["ansi"]
    assert isinstance(arrived["metadata"]["thing"], Opaque)
    assert encode(m.Welcome(session="a" * 32, token=b"t" * 16, **facts))


def test_facts_of_an_environment_without_metadata(env: _Env) -> None:
    env.metadata = None  # type: ignore[assignment]
    assert facts_of(env, "t", {})["metadata"] == pack({}, "metadata")
