"""Field bugs about values: what an environment or an agent says is what the other side gets."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from openenv_gym.env import RemoteEnv
from openenv_gym.errors import InvalidActionError, ValueNotCarriedError
from openenv_gym.testing import difference, same
from tests.support.testenvs import BadObsEnv, RewardEnv, SpecialFloatEnv

Remote = Callable[..., RemoteEnv]


class TextEnv(gym.Env[Any, Any]):
    """Puts awkward texts and bytes into ``info``."""

    TEXTS = (
        "\x1b[31mred\x1b[0m",
        "a\r\nb",
        "nul\x00",
        "\U0001f600",
        "lone \ud800",
        "line " * (2 << 20),
        "",
    )

    def __init__(self) -> None:
        self.observation_space = spaces.Discrete(2)
        self.action_space = spaces.Discrete(len(self.TEXTS))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.int64(0), {"raw": b"\xff\xfe"}

    def step(self, action: Any) -> Any:
        return np.int64(0), 0.0, False, False, {"text": self.TEXTS[action]}


class NumpyEnv(gym.Env[Any, Any]):
    """Returns numpy's own types everywhere."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            {"n": spaces.Discrete(9), "x": spaces.Box(-4.8000002, 4.8000002, (1,), np.float32)}
        )
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observe(), {"a": np.array(1.5), "b": np.float64("nan"), 3: np.int8(4)}

    def observe(self) -> Any:
        return {"n": np.int64(3), "x": np.array([0.1], np.float32)}

    def step(self, action: Any) -> Any:
        return self.observe(), np.float32(0.5), np.bool_(True), np.bool_(False), {"count": np.uint8(7)}


class Tensor:
    """Looks like a tensor of torch on a device."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def detach(self) -> Tensor:
        return self

    cpu = detach

    def numpy(self) -> Any:
        return self.data


Tensor.__module__ = "torch"


class TensorEnv(NumpyEnv):
    """Nests arrays and tensors."""

    def step(self, action: Any) -> Any:
        info = {"a": [{"b": (np.zeros(3), Tensor(np.ones((2, 2), np.float16)))}]}
        return self.observe(), 0.0, False, False, info


class OddActionsEnv(gym.Env[Any, Any]):
    """Takes actions of a given space and reports what it got."""

    SPACES: dict[str, Callable[[], gym.Space[Any]]] = {  # noqa: RUF012 - never changed
        "uint64": lambda: spaces.Box(0, 2**64 - 1, (), np.uint64),
        "int8": lambda: spaces.Box(-128, 127, (), np.int8),
        "uint8": lambda: spaces.Box(0, 255, (), np.uint8),
        "discrete": lambda: spaces.Discrete(10, start=-3),
    }
    if "dtype" in signature(spaces.Discrete).parameters:  # from Gymnasium 1.3 on
        SPACES["discrete_uint8"] = lambda: spaces.Discrete(10, dtype=np.uint8)

    def __init__(self, kind: str) -> None:
        self.observation_space = spaces.Discrete(1)
        self.action_space = self.SPACES[kind]()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.int64(0), {}

    def step(self, action: Any) -> Any:
        return np.int64(0), 0.0, False, False, {"action": action, "text": str(action)}


def check(remote: gym.Env[Any, Any], local: gym.Env[Any, Any], *actions: Any) -> None:
    assert difference(remote.reset(seed=1), local.reset(seed=1)) is None
    for action in actions:
        assert difference(remote.step(action), local.step(action)) is None


def test_f033_numpy_scalars_keep_their_types_everywhere(remote: Remote) -> None:
    env = remote(f"{__name__}:NumpyEnv")
    assert env.observation_space == NumpyEnv().observation_space
    check(env, NumpyEnv(), 0, np.int64(1), np.int32(1))


@pytest.mark.parametrize("kind", RewardEnv.KINDS)
def test_f033_f035_rewards_keep_type_and_bits(remote: Remote, kind: str) -> None:
    check(remote("RewardEnv", kind=kind), RewardEnv(kind), 0, 0, 0, 0)


def test_f035_special_floats_keep_their_bits(remote: Remote) -> None:
    check(remote("SpecialFloatEnv"), SpecialFloatEnv(), 0, 0)


def test_f036_what_cannot_be_carried_is_refused_by_its_path_and_the_session_lives(remote: Remote) -> None:
    env = remote("AttrEnv")
    env.reset()
    with pytest.raises(ValueNotCarriedError, match=r"options\['x'\]\[2\] has no form on the wire"):
        env.reset(options={"x": [1, 2, object()]})
    with pytest.raises(ValueNotCarriedError, match="handle has no form on the wire"):
        _ = env.handle
    env.reset()
    assert env.step(0)[1] == 1.0


def test_f037_arrays_and_tensors_arrive_at_any_depth(remote: Remote) -> None:
    env = remote(f"{__name__}:TensorEnv")
    env.reset()
    info = env.step(0)[4]
    assert same(info, {"a": [{"b": (np.zeros(3), np.ones((2, 2), np.float16))}]})


@pytest.mark.parametrize(
    ("kind", "action", "shown"),
    [
        ("uint64", np.uint64(2**63 + 1), "9223372036854775809"),
        ("uint64", np.array(2**64 - 1, np.uint64), "18446744073709551615"),
        ("int8", np.int8(-128), "-128"),
        ("int8", 5, "5"),
        ("discrete", -3, "-3"),
    ],
)
def test_f039_actions_arrive_exactly(remote: Remote, kind: str, action: Any, shown: str) -> None:
    env = remote(f"{__name__}:OddActionsEnv", kind=kind)
    env.reset()
    info = env.step(action)[4]
    assert info["text"] == shown


@pytest.mark.parametrize(
    ("kind", "action"),
    [("uint8", 300), ("uint8", np.array(-1)), ("int8", 128), ("discrete", 1.7), ("discrete", "1")],
)
def test_f039_an_action_that_would_change_is_refused_before_it_is_sent(
    remote: Remote, kind: str, action: Any
) -> None:
    env = remote(f"{__name__}:OddActionsEnv", kind=kind)
    env.reset()
    with pytest.raises(InvalidActionError, match="action"):
        env.step(action)
    assert env.step(env.action_space.sample())[2] is False


@pytest.mark.parametrize("kind", [kind for kind in OddActionsEnv.SPACES if kind.startswith("discrete")])
@pytest.mark.parametrize(
    "action",
    [300, -1, -3, 7, 2**70, -(2**70), np.int8(5), np.uint64(2**63), True, [5], np.array(5), None, 1.0],
)
def test_f074_a_discrete_takes_what_gymnasium_takes(remote: Remote, kind: str, action: Any) -> None:
    env = remote(f"{__name__}:OddActionsEnv", kind=kind)
    env.reset()
    try:
        contained = env.action_space.contains(action)
    except OverflowError:  # Gymnasium's own, before 1.4
        contained = False
    if contained:
        assert env.step(action)[4]["text"] == str(action)
    else:
        with pytest.raises(InvalidActionError):
            env.step(action)


@pytest.mark.parametrize("kind", ["float64", "list", "int"])
def test_f040_an_observation_of_another_dtype_is_cast_with_a_warning(remote: Remote, kind: str) -> None:
    env = remote("BadObsEnv", kind=kind, at=1)
    env.reset()
    with pytest.warns(UserWarning, match=r"obs\['x'\].*float32"):
        observation = env.step(0)[0]
    assert env.observation_space.contains(observation)


@pytest.mark.parametrize(
    "kind", [kind for kind in BadObsEnv.KINDS if kind not in ("right", "float64", "list", "int")]
)
def test_f040_f085_an_observation_that_is_another_thing_is_an_error_that_names_it(
    remote: Remote, kind: str
) -> None:
    env = remote("BadObsEnv", kind=kind, at=1)
    env.reset()
    with pytest.raises(ValueNotCarriedError, match=r"^obs"):
        env.step(0)
    assert env.reset()[0]["x"].dtype == np.float32


def test_f041_any_text_and_any_bytes_arrive(remote: Remote) -> None:
    check(remote(f"{__name__}:TextEnv"), TextEnv(), *range(len(TextEnv.TEXTS)))


def test_f041_any_text_is_an_action() -> None:
    env = gym.make("openenv/Echo-v0", provider="inprocess")
    env.reset()
    for text in TextEnv.TEXTS[:3]:
        assert env.step(text)[0] == text
    env.close()


def test_f085_nothing_on_the_wire_is_pickled_or_evaluated() -> None:
    pattern = re.compile(
        r"^\s*(import|from) (pickle|cloudpickle|marshal|shelve)\b|\beval\(|\bexec\(|allow_pickle=True"
    )
    rooms = [import_module(f"openenv_gym{room}") for room in ("", ".envs", ".servers", ".wrappers")]
    files = {file for room in rooms for file in Path(room.__path__[0]).rglob("*.py")}
    assert len(files) > 60
    lines = ((file.name, line) for file in files for line in file.read_text(encoding="utf-8").splitlines())
    assert [found for found in lines if pattern.search(found[1])] == []
