"""A vector class of the environment's own is served as it is, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from openenv_gym.errors import (
    ConfigError,
    ConstructionError,
    ForbiddenError,
    RemoteProtocolError,
    ResetNeededError,
    ValueNotCarriedError,
)
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.columns import column_codec
from openenv_gym.testing.compare import difference

from .lanescene import Client, opened

_HERE = "tests.servers.test_native"
_BOX = spaces.Box(-9, 9, (2,), np.float32)


class ToyVectorEnv(VectorEnv[Any, Any, Any]):
    """Returns what it is told to by its arguments; says what it was given in ``infos``."""

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self, num_envs: int, rewards: str = "float64", flags: str = "bool", more: int = 0, batch: int = 0
    ) -> None:
        self.num_envs = num_envs + more
        self.single_observation_space, self.single_action_space = _BOX, spaces.Discrete(3)
        self.observation_space = batch_space(_BOX, num_envs + batch)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._rewards, self._flags = rewards, flags
        self.public = 5

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros((self.num_envs, 2), np.float32), {"seed": seed, "options": options}

    def step(self, actions: Any) -> Any:
        n = self.num_envs
        last = np.arange(n) == n - 1
        flags = last.astype(self._flags) if self._flags != "none" else np.zeros((n, 1), bool)
        info = {"actions": actions.copy(), "kept": np.array([None, {"a": 1}], object)}
        return np.ones((n, 2), np.float32), np.arange(n).astype(self._rewards), flags, flags, info

    def bump(self, by: int) -> int:
        """Add to ``public``."""
        self.public += by
        return self.public

    def render(self) -> Any:
        return "one frame"

    def close_extras(self, **kwargs: Any) -> None:
        self.public = 0


class LargeVectorEnv(ToyVectorEnv):
    """Has frames, which all its observations share, and changes them in each call."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.single_observation_space = spaces.Box(0, 255, (128, 128), np.uint8)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.frames = np.zeros((num_envs, 128, 128), np.uint8)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.frames[:] = 7
        return self.frames, {}

    def step(self, actions: Any) -> Any:
        self.frames += actions.astype(np.uint8)[:, None, None]
        return self.frames, *super().step(actions)[1:]


class MaskedVectorEnv(SyncVectorEnv):  # no generic class in Gymnasium 1.2
    """Knows masks, and has the mode it is told to have."""

    def __init__(self, num_envs: int, autoreset_mode: Any = AutoresetMode.NEXT_STEP) -> None:
        super().__init__(
            [lambda: gym.make("CartPole-v1", disable_env_checker=True)] * num_envs,
            autoreset_mode=autoreset_mode,
        )


def no_vector(num_envs: int) -> Any:
    """Build something else."""
    return gym.make("CartPole-v1")


@pytest.fixture
def make() -> Iterator[Any]:
    made: list[Client] = []

    def build(target: str, **fields: Any) -> Client:
        made.append(opened(target, **{"native": True, "autoreset": "any", "lanes": 3, **fields}))
        return made[-1]

    yield build
    for client in made:
        client.close()


def _step(client: Client, actions: Any) -> Any:
    return client.ask(m.Step, column_codec(client.single_action_space, actions=True).encode_batch(actions, 3))


def _batch(client: Client, column: Any) -> Any:
    space, lanes = client.single_observation_space, client.num_envs
    out = np.empty((lanes, *space.shape), space.dtype)  # type: ignore[arg-type]
    return column_codec(space).decode_into(column, lanes, out)


@pytest.mark.parametrize("mode", ["next_step", "any"])
def test_it_does_what_it_does_locally(make: Any, mode: str) -> None:
    client = make("CartPole-v1", autoreset=mode)
    local = gym.make_vec("CartPole-v1", num_envs=3, vectorization_mode="vector_entry_point")
    reply, (observations, infos) = client.ask(m.Reset, [7]), local.reset(seed=7)
    assert difference(_batch(client, reply.observations), observations) is None
    rng = np.random.default_rng(0)
    for _ in range(60):
        actions = rng.integers(0, 2, 3)
        reply, theirs = _step(client, actions), local.step(actions)
        flags = np.frombuffer(reply.flags, np.uint8)
        rewards = reply.rewards if isinstance(reply.rewards, list) else [np.frombuffer(reply.rewards, "<f8")]
        ours = (_batch(client, reply.observations), *rewards, flags & 1 != 0, flags & 2 != 0)
        assert difference(ours, theirs[:4]) is None
        assert (reply.batch_info or {}) == theirs[4] == infos
    local.close()


def test_its_mode_is_told(make: Any) -> None:
    assert make("CartPole-v1").welcome.metadata["autoreset_mode"] == "NextStep"
    assert (
        make(f"{_HERE}:MaskedVectorEnv", autoreset="same_step").welcome.metadata["autoreset_mode"]
        == "SameStep"
    )


def test_what_it_gets_and_returns_is_not_changed(make: Any) -> None:
    client = make(f"{_HERE}:ToyVectorEnv")
    for seed in (None, 5, [1, None, 3], np.array([4, 5, 6])):
        reply = client.ask(m.Reset, None if seed is None else [_packed(seed)], {"x": 1})
        assert difference(reply.batch_info, {"seed": seed, "options": {"x": 1}}) is None
    reply = _step(client, np.array([2, 0, 1]))
    assert difference(reply.batch_info["actions"], np.array([2, 0, 1])) is None
    assert difference(reply.batch_info["kept"], np.array([None, {"a": 1}], object)) is None
    assert reply.rewards == np.arange(3.0).tobytes()
    assert (reply.infos, reply.lanes, reply.warnings) == (None, None, [])


def _packed(seed: Any) -> Any:
    from openenv_gym.protocol.values import pack

    return pack(seed)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_rewards_keep_their_dtype(make: Any, dtype: str) -> None:
    client = make(f"{_HERE}:ToyVectorEnv", env_kwargs={"rewards": dtype})
    client.ask(m.Reset)
    assert difference(_step(client, np.zeros(3, np.int64)).rewards, [np.arange(3).astype(dtype)]) is None


def test_flags_that_are_no_bools_are_cast_with_a_warning(make: Any) -> None:
    client = make(f"{_HERE}:ToyVectorEnv", env_kwargs={"flags": "int64"})
    client.ask(m.Reset)
    warnings = _step(client, np.zeros(3, np.int64)).warnings
    assert ["int64" in text for text in warnings] == [True, True]
    assert _step(client, np.zeros(3, np.int64)).warnings == []
    client = make(f"{_HERE}:ToyVectorEnv", env_kwargs={"flags": "none"})
    client.ask(m.Reset)
    with pytest.raises(ValueNotCarriedError, match=r"terminated has the shape \(3, 1\)"):
        _step(client, np.zeros(3, np.int64))


def test_large_observations_arrive_whatever_the_environment_does_with_them_later(make: Any) -> None:
    client = make(f"{_HERE}:LargeVectorEnv")
    columns = [client.ask(m.Reset).observations]
    columns += [_step(client, np.array([0, 1, 2])).observations for _ in range(2)]
    found = [_batch(client, column)[:, 0, 0].tolist() for column in columns]
    assert found == [[7, 7, 7], [7, 8, 9], [7, 9, 11]]
    assert all((_batch(client, column) == _batch(client, column)[:, :1, :1]).all() for column in columns)


def test_a_lane_may_be_terminated_and_truncated_at_once(make: Any) -> None:
    for kind in ("bool", "int64"):
        client = make(f"{_HERE}:ToyVectorEnv", env_kwargs={"flags": kind})
        client.ask(m.Reset)
        assert _step(client, np.zeros(3, np.int64)).flags == b"\0\0\3"


def test_a_mask_reaches_a_class_that_knows_masks(make: Any) -> None:
    client = make(f"{_HERE}:MaskedVectorEnv", autoreset="disabled")
    local = MaskedVectorEnv(3, AutoresetMode.DISABLED)
    client.ask(m.Reset, [3])
    local.reset(seed=3)
    mask = np.array([False, True, False])
    reply = client.ask(m.Reset, [_packed([None, 9, None])], None, mask.tobytes())
    theirs, _ = local.reset(seed=[None, 9, None], options={"reset_mask": mask})
    assert difference(_batch(client, reply.observations), theirs) is None
    local.close()


@pytest.mark.parametrize("target", ["CartPole-v1", f"{_HERE}:ToyVectorEnv"])
def test_a_mask_is_refused_where_it_would_be_ignored(make: Any, target: str) -> None:
    client = make(target)
    client.ask(m.Reset)
    with pytest.raises(ConfigError, match=r"does not know options\['reset_mask'\]"):
        client.ask(m.Reset, None, None, b"\1\0\0")


@pytest.mark.parametrize(
    ("target", "fields", "error", "says"),
    [
        ("CartPole-v1", {"autoreset": "same_step"}, ConfigError, "NextStep, SameStep was asked for"),
        (f"{_HERE}:ToyVectorEnv", {"env_kwargs": {"more": 1}}, ConfigError, "4 lanes, 3 were asked for"),
        (f"{_HERE}:ToyVectorEnv", {"env_kwargs": {"batch": 1}}, ConfigError, "batched observation_space"),
        (f"{_HERE}:ToyVectorEnv", {"env_kwargs": [{}, {}, {}]}, ConfigError, "must be a map"),
        (
            f"{_HERE}:ToyVectorEnv",
            {"limits": m.Limits(episode=5)},
            ConfigError,
            "no argument max_episode_steps",
        ),
        (f"{_HERE}:ToyVectorEnv", {"render_mode": "ansi"}, ConfigError, "no argument render_mode"),
        (f"{_HERE}:no_vector", {}, ConstructionError, "not a gymnasium.vector.VectorEnv"),
        ("gymnasium.envs.toy_text:FrozenLakeEnv", {}, ConfigError, "is no vector environment"),
        ("FrozenLake-v1", {}, ConfigError, "no vector_entry_point"),
    ],
)
def test_what_it_lacks_is_said_when_it_is_built(
    make: Any, target: str, fields: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        make(target, **fields)


@pytest.mark.parametrize(
    ("kind", "fields", "says"),
    [
        (m.Reset, {"seeds": [1, 2, 3]}, "more than one seed"),
        (m.Reset, {"mask": b"\1"}, "3 bytes, each 0 or 1"),
        (m.Step, {"actions": bytes(24), "lanes": b"\0\0\0\0"}, "stepped together"),
        (m.Step, {"actions": bytes(24), "wait": 1}, "stepped together"),
        (m.Step, {"actions": bytes(8)}, "24 bytes were due"),
        (m.State, {}, "no 'state'"),
    ],
)
def test_requests_that_it_cannot_carry_out_are_refused(
    make: Any, kind: Any, fields: dict[str, Any], says: str
) -> None:
    client = make(f"{_HERE}:ToyVectorEnv")
    client.ask(m.Reset)
    with pytest.raises(RemoteProtocolError, match=says):
        client.ask(kind, **fields)


def test_it_is_reset_first(make: Any) -> None:
    with pytest.raises(ResetNeededError):
        _step(make("CartPole-v1"), np.zeros(3, np.int64))


def test_its_own_attributes_are_reached(make: Any) -> None:
    client = make(f"{_HERE}:ToyVectorEnv")
    assert client.ask(m.Set, "public", [7]).values == [None]
    assert client.ask(m.Call, "bump", [3]).values == [10]
    assert client.ask(m.Get, "public").values == [10]
    assert client.ask(m.Get, "bump").callable
    assert client.ask(m.Render).frames == ["one frame"]
    with pytest.raises(ForbiddenError):
        client.ask(m.Get, "_rewards")


def test_episodes_are_truncated_when_the_client_says_so(make: Any) -> None:
    client = make("CartPole-v1", limits=m.Limits(episode=2))
    client.ask(m.Reset)
    assert [_step(client, np.zeros(3, np.int64)).flags for _ in range(2)] == [b"\0\0\0", b"\2\2\2"]


def test_how_long_it_worked_is_told_to_those_who_ask(make: Any) -> None:
    client = make("CartPole-v1", capabilities=["timing"])
    client.ask(m.Reset)
    codec, waited, worked = _step(client, np.zeros(3, np.int64)).timing
    assert codec > 0 and worked > 0 and waited == 0


def test_atari_keeps_its_own_kind_of_seed_and_mask(make: Any) -> None:
    from ale_py.vector_env import AtariVectorEnv

    client = make("ale_py:ALE/Pong-v5", autoreset="same_step", time_limit=False)
    local: Any = AtariVectorEnv("pong", 3, autoreset_mode=AutoresetMode.SAME_STEP)
    seeds, mask = np.array([1, 2, 3]), np.array([True, False, True])
    reply, (observations, infos) = client.ask(m.Reset, [_packed(seeds)]), local.reset(seed=seeds)
    assert difference(_batch(client, reply.observations), observations) is None
    assert difference(reply.batch_info, infos) is None
    reply = client.ask(m.Reset, [_packed(seeds[mask])], None, mask.tobytes())
    observations, _ = local.reset(seed=seeds[mask], options={"reset_mask": mask})
    assert difference(_batch(client, reply.observations), observations) is None
    local.close()
