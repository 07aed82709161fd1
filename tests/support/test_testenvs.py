"""The test environments are what they claim: valid, covering, deterministic."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from openenv_gym.spaces import Json, Unicode
from tests.support import testenvs
from tests.support.compare import canonical, digest, same
from tests.support.faultenvs import live_peak, note, notes
from tests.support.infozoo import EXACT, MAPPED, OPAQUE
from tests.support.spacezoo import SPACES

ROOT = Path(__file__).resolve().parents[2]


def rollout(env: gym.Env[Any, Any], steps: int = 30) -> list[Any]:
    env.action_space.seed(5)
    history: list[Any] = [env.reset(seed=3)]
    for _ in range(steps):
        result = env.step(env.action_space.sample())
        history.append(result)
        if result[2] or result[3]:
            history.append(env.reset())
    env.close()
    return history


def kinds(space: gym.Space[Any]) -> set[type]:
    inner: Any = ()
    if isinstance(space, spaces.Dict):
        inner = space.spaces.values()
    elif isinstance(space, spaces.Tuple | spaces.OneOf):
        inner = space.spaces
    elif isinstance(space, spaces.Sequence):
        inner = (space.feature_space,)
    elif isinstance(space, spaces.Graph):
        inner = [part for part in (space.node_space, space.edge_space) if part is not None]
    return {type(space)}.union(*map(kinds, inner))


def test_spaces_cover_every_kind() -> None:
    every = set().union(*(kinds(maker()) for maker in SPACES.values()))
    fundamental = {getattr(spaces, name) for name in spaces.__all__} - {spaces.Space}
    assert {cls for cls in fundamental if isinstance(cls, type) and issubclass(cls, spaces.Space)} <= every
    assert {Unicode, Json} <= every


@pytest.mark.parametrize("env_id", testenvs.SPACE_IDS)
def test_space_envs_repeat_under_a_seed_and_stay_in_their_space(env_id: str) -> None:
    env = gym.make(env_id)
    first = rollout(env)
    assert same(first, rollout(gym.make(env_id)))
    assert all(env.observation_space.contains(result[0]) for result in first)


def test_space_envs_end_both_ways() -> None:
    results = [result for result in rollout(gym.make("Space-discrete-v0")) if len(result) == 5]
    ends = [(type(terminated), bool(terminated), truncated) for _, _, terminated, truncated, _ in results]
    assert (np.bool_, True, False) in ends
    assert (np.bool_, False, True) in ends


def test_samples_do_not_depend_on_the_process() -> None:
    program = (
        "from tests.support.testenvs import SpaceEnv; from tests.support.compare import digest;"
        "print(digest(SpaceEnv('nested').reset(seed=1)))"
    )
    expected = digest(testenvs.SpaceEnv("nested").reset(seed=1))
    for hash_seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": hash_seed, "PATH": "/usr/bin:/bin"}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected


@pytest.mark.parametrize("name", ["Attr", "Render", "Reward"])
def test_plain_envs_pass_the_checker(name: str) -> None:
    check_env(gym.make(f"{name}-v0").unwrapped, skip_render_check=True)


def test_masked_env_refuses_what_its_mask_forbids() -> None:
    env = testenvs.MaskedEnv()
    env.reset(seed=0)
    masks = env.action_masks()
    assert masks.tolist() == [True, False, False, True]
    with pytest.raises(ValueError, match="not allowed"):
        env.step(1)
    env.step(3)
    assert env.action_masks().tolist() == [False, True, False, False]


def test_special_floats_lie_in_no_box() -> None:
    env = testenvs.SpecialFloatEnv()
    first, _ = env.reset(seed=0)
    assert not env.observation_space.contains(first)
    assert same(first, env.reset(seed=0)[0])
    assert np.isnan(first["f32"][0]) and first["f32"].view(np.uint32)[0] & 0xFFFF == 0xBEEF


def test_infos_come_in_reset_and_one_by_one() -> None:
    env = gym.make("Info-exact-v0")
    _, info = env.reset(seed=0)
    assert same(info, EXACT)
    merged: dict[str, Any] = {}
    for _ in EXACT:
        merged |= env.step(0)[4]
    assert same(merged, EXACT)
    assert set(testenvs.INFO_IDS) == {"Info-exact-v0", "Info-mapped-v0", "Info-opaque-v0"}
    assert MAPPED.keys().isdisjoint(EXACT) and OPAQUE.keys().isdisjoint(MAPPED)


def test_reward_envs_return_their_kind() -> None:
    types = {}
    for env_id in testenvs.REWARD_IDS:
        env = gym.make(env_id)
        env.reset()
        types[env_id.removeprefix("Reward-").removesuffix("-v0")] = type(env.step(0)[1])
    assert types["float32"] is np.float32
    assert types["int"] is int
    assert types["array"] is np.ndarray


def test_counter_notes_what_happened(tmp_path: Path) -> None:
    path = str(tmp_path / "notes")
    env = testenvs.CounterEnv(path)
    env.reset(seed=1)
    assert env.step(0)[4] == {"total": 1}
    env.bump()
    env.level = 3
    env.close()
    assert notes(path) == "irsmwc"
    assert env.level == 3


def test_live_peak_reads_overlaps(tmp_path: Path) -> None:
    path = str(tmp_path / "notes")
    for mark in b"iiccirsic":
        note(path, bytes([mark]))
    assert live_peak(path) == 2
    assert live_peak(tmp_path / "none") == 0


def test_every_nth_construction_fails(tmp_path: Path) -> None:
    outcomes = []
    for _ in range(6):
        try:
            testenvs.FailingInitEnv(every=3, tries=str(tmp_path / "tries"))
            outcomes.append(True)
        except RuntimeError:
            outcomes.append(False)
    assert outcomes == [True, True, False, True, True, False]


@pytest.mark.parametrize(
    ("how", "code"),
    [("segfault", -11), ("abort", -6), ("exit", 7), ("kill", -9), ("sys_exit", 3), ("exception", 1)],
)
def test_crashes_end_the_process_as_they_say(how: str, code: int) -> None:
    program = (
        "from tests.support.testenvs import CrashEnv\n"
        f"env = CrashEnv(how={how!r}, at=2); env.reset(); env.step(0)\n"
        "print('alive', flush=True); env.step(0)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "alive\n")


def test_thread_env_notices_a_running_loop() -> None:
    import asyncio

    env = testenvs.ThreadEnv()

    async def reset_inside() -> None:
        env.reset()

    with pytest.raises(AssertionError, match="running loop"):
        asyncio.run(reset_inside())


@pytest.mark.parametrize("kind", [kind for kind in testenvs.BadObsEnv.KINDS if kind != "right"])
def test_bad_observations_are_bad_from_the_given_step_on(kind: str) -> None:
    env = testenvs.BadObsEnv(kind=kind, at=2)
    assert env.observation_space.contains(env.reset()[0])
    assert env.observation_space.contains(env.step(0)[0])
    bad = env.step(0)[0]
    assert not same(bad, env.KINDS["right"]())


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True),
        (1, np.int64(1)),
        (0.0, -0.0),
        ([1], (1,)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (np.zeros(2), np.zeros(2, np.float32)),
        (np.zeros((2, 1)), np.zeros((1, 2))),
        ({1}, frozenset({1})),
        ("1", b"1"),
    ],
)
def test_different_values_are_not_the_same(left: Any, right: Any) -> None:
    assert not same(left, right)
    assert same(left, left)


def test_nan_is_the_same_as_itself() -> None:
    assert same({"x": [float("nan"), np.float32("nan")]}, {"x": [float("nan"), np.float32("nan")]})
    assert same({3, 1, 2}, {2, 3, 1})
    assert canonical(EXACT["nan"]) != canonical(EXACT["nan_payload"])
