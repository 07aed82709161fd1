"""Field bugs about making environments: gym.make's arguments, specs that travel, vector envs, settings."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from openenv_gym.client.endpoint import is_loopback, parse_endpoint
from openenv_gym.env import RemoteEnv
from openenv_gym.errors import CapacityError, ConfigError, ResetNeededError
from openenv_gym.testing import check_remote, difference
from tests.conformance.serving import Cell, serve

Remote = Callable[..., RemoteEnv]
UNIX = Cell("thread", "handover", "unix")


def run(code: str, *arguments: str) -> str:
    """Return what a process prints that did not import openenv_gym; it must not complain."""
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def wrappers(env: gym.Env[Any, Any]) -> list[type]:
    found = []
    while isinstance(env, gym.Wrapper):
        found.append(type(env))
        env = env.env
    return found


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve("CartPole-v1", UNIX, tmp_path_factory.mktemp("s")) as url:
        yield url


@pytest.fixture
def cart(cartpole: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., gym.Env[Any, Any]]]:
    """Return gym.make of the mirror of CartPole-v1; what it makes is closed."""
    made: list[gym.Env[Any, Any]] = []

    def make(**kwargs: Any) -> gym.Env[Any, Any]:
        made.append(gym.make("remote/CartPole-v1", base_url=cartpole, **kwargs))
        return made[-1]

    yield make
    for env in made:
        env.close()


# -- gym.make's arguments


def test_a_mirror_is_wrapped_as_the_environment_is(cart: Callable[..., gym.Env[Any, Any]]) -> None:
    for kwargs in ({}, {"disable_env_checker": True}, {"max_episode_steps": 3}, {"max_episode_steps": -1}):
        local = gym.make("CartPole-v1", **kwargs)
        assert wrappers(cart(**kwargs)) == wrappers(local)
        local.close()
    assert wrappers(cart()) == [TimeLimit, OrderEnforcing, PassiveEnvChecker]


def test_the_time_limit_is_gym_makes(cart: Callable[..., gym.Env[Any, Any]]) -> None:
    env, local = cart(max_episode_steps=3), gym.make("CartPole-v1", max_episode_steps=3)
    check_remote(env, local, steps=20)


def test_the_server_keeps_no_time_limit_of_its_own(tmp_path: Path) -> None:
    with serve("Pendulum-v1", UNIX, tmp_path) as url:
        with closing(gym.make("remote/Pendulum-v1", base_url=url, max_episode_steps=-1)) as env:
            env.reset(seed=0)
            assert not any(env.step(np.zeros(1, np.float32))[3] for _ in range(220))
        with closing(gym.make("openenv/Remote-v0", base_url=url)) as env:  # it is whatever the server hosts
            env.reset(seed=0)
            ends = [env.step(np.zeros(1, np.float32))[3] for _ in range(200)]
            assert ends.index(True) == 199


def test_order_is_enforced_with_and_without_the_wrapper(cart: Callable[..., gym.Env[Any, Any]]) -> None:
    with pytest.raises(ResetNeeded):
        cart().step(0)
    with pytest.raises(ResetNeededError, match=r"call reset\(\) first"):
        cart().unwrapped.step(0)


def test_the_arguments_of_the_environment_reach_it(tmp_path: Path) -> None:
    with serve("FrozenLake-v1", UNIX, tmp_path) as url:
        make = partial(gym.make, "remote/FrozenLake-v1", base_url=url)
        with closing(make(is_slippery=False, map_name="8x8")) as env:
            check_remote(env, gym.make("FrozenLake-v1", is_slippery=False, map_name="8x8"), steps=60)
        with closing(make(env_kwargs={"is_slippery": False})) as env:
            check_remote(env, gym.make("FrozenLake-v1", is_slippery=False), steps=30)


def test_a_near_miss_is_named_and_env_kwargs_lets_it_through(remote: Remote) -> None:
    with pytest.raises(ConfigError, match=r"'step_timout'; did you mean 'step_timeout'\?"):
        gym.make("remote/CartPole-v1", step_timout=3)
    info = remote("OptionsEnv", step_timout=3).reset()[1]
    assert info["kwargs"] == {"step_timout": 3}


@pytest.mark.parametrize("name", ["step_timeout", "connect_timeout", "startup_timeout"])
def test_f007_a_timeout_means_the_same_everywhere(
    cart: Callable[..., gym.Env[Any, Any]], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for unlimited in (None, float("inf"), 60):
        cart(**{name: unlimited}).reset()
    for wrong in (0, -1, float("nan"), 0.0, "3", True):
        with pytest.raises(ConfigError, match=f"{name} is"):
            cart(**{name: wrong})
    monkeypatch.setenv(f"OPENENV_{name.upper()}", "0")
    with pytest.raises(ConfigError, match=f"{name} is 0"):
        cart()


def test_variables_set_what_arguments_leave_open(cartpole: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_BASE_URL", cartpole)
    monkeypatch.setenv("OPENENV_ON_ERROR", "truncate")
    with closing(gym.make("remote/CartPole-v1")) as env:
        unwrapped = env.unwrapped
        assert isinstance(unwrapped, RemoteEnv)
        assert (unwrapped.base_url, unwrapped._truncate) == (cartpole, True)
        assert env.spec is not None
        assert "base_url" not in env.spec.kwargs
    with closing(gym.make("remote/CartPole-v1", on_error="raise")) as env:
        assert isinstance(env.unwrapped, RemoteEnv)
        assert not env.unwrapped._truncate


def test_a_token_shows_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "openenv_gym")
    token = "correct-horse-battery"
    monkeypatch.setenv("MAZE_TOKEN", token)
    with serve("CartPole-v1", Cell("thread", "handover", "tcp"), tmp_path, token=token) as url:
        for given in (token, "env:MAZE_TOKEN"):
            env = gym.make("remote/CartPole-v1", base_url=url, token=given)
            env.reset()
            again = gym.make(env.spec)  # type: ignore[arg-type]
            again.reset()
            shown = [env.spec.to_json(), repr(env.spec), repr(env), str(env.unwrapped), env.spec.pprint(True)]  # type: ignore[union-attr]
            again.close()
            env.close()
            assert not [text for text in shown if text and token in text]
    assert token not in caplog.text


# -- F073: specs that travel


@pytest.mark.parametrize("made", ["openenv_gym:openenv/Echo-v0", "openenv_gym:remote/CartPole-v1"])
def test_f073_a_spec_works_in_a_process_that_imported_gymnasium_alone(made: str) -> None:
    with closing(gym.make(made, max_episode_steps=9)) as env:
        assert env.spec is not None
        text = env.spec.to_json()
        first = repr(env.reset(seed=4))
    code = (
        "import sys, gymnasium as gym\n"
        "from gymnasium.envs.registration import EnvSpec\n"
        "assert not any(name.startswith('openenv') for name in sys.modules)\n"
        "for make in (EnvSpec.make, gym.make):\n"
        "    env = make(EnvSpec.from_json(sys.argv[1]))\n"
        "    print(env.reset(seed=4), env.spec.max_episode_steps, sep='|')\n"
        "    env.close()\n"
    )
    assert run(code, text).splitlines() == [f"{first}|9"] * 2


def test_f073_the_prefix_is_enough_in_a_process_that_imported_gymnasium_alone() -> None:
    code = "import gymnasium as gym\nenv = gym.make('openenv_gym:openenv/Echo')\nenv.close()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Using the latest versioned environment `openenv/Echo-v0`" in done.stderr


@pytest.mark.parametrize("context", ["spawn", "fork"])
def test_f073_vector_workers_make_envs_of_their_own(context: str) -> None:
    make = partial(gym.make, "openenv_gym:remote/CartPole-v1")
    local = SyncVectorEnv([partial(gym.make, "CartPole-v1")] * 2)
    vector = AsyncVectorEnv([make] * 2, context=context)
    assert difference(vector.reset(seed=3), local.reset(seed=3)) is None
    for action in ([0, 1], [1, 1], [0, 0]):
        assert difference(vector.step(np.array(action)), local.step(np.array(action))) is None
    vector.close()
    local.close()


def test_f073_a_sync_vector_env_is_the_local_one() -> None:
    vector = gym.make_vec("openenv_gym:remote/CartPole-v1", num_envs=3, vectorization_mode="sync")
    local = gym.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync")
    assert difference(vector.reset(seed=3), local.reset(seed=3)) is None
    assert vector.spec is not None
    again = gym.make_vec(EnvSpec.from_json(vector.spec.to_json()))
    for each in (vector, local, again):
        each.close()


def test_f065_making_a_vector_env_takes_no_slot_more_than_it_has_lanes(tmp_path: Path) -> None:
    with serve("CartPole-v1", UNIX, tmp_path, max_sessions=4) as url:
        make = partial(gym.make, "remote/CartPole-v1", base_url=url)
        for kind in (AsyncVectorEnv, SyncVectorEnv):
            vector = kind([make] * 4)
            with pytest.raises(CapacityError, match="4"):
                make()
            vector.reset(seed=0)
            vector.close()


# -- F072: seeds


def test_f072_a_seed_decides_over_the_next_episodes_too(tmp_path: Path) -> None:
    histories = []
    for turn in range(2):
        folder = tmp_path / str(turn)
        folder.mkdir()
        with (
            serve("CartPole-v1", UNIX, folder) as url,
            closing(gym.make("remote/CartPole-v1", base_url=url)) as env,
        ):
            histories.append([env.reset(seed=1), env.reset(), env.reset()])
            assert env.unwrapped.np_random_seed == 1
    assert difference(*histories) is None


# -- what comes from elsewhere


def test_third_parties_add_ids_that_are_imported_when_made(tmp_path: Path) -> None:
    about = tmp_path / "acme_mazes-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-mazes\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[openenv_gym.envs]\nacme/Maze-v0 = acme_mazes:Maze\nTiny-v1 = acme_mazes:Maze\n"
    )
    (tmp_path / "acme_mazes.py").write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv as Maze\nprint('imported', __name__)\n"
    )
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import gymnasium as gym, openenv_gym\n"
        "assert 'acme_mazes' not in sys.modules\n"
        "for name in ('acme/Maze-v0', 'openenv/Tiny-v1'):\n"
        "    env = gym.make(name)\n"
        "    print(env.reset(seed=1)[0].shape, 'acme_mazes' in sys.modules)\n"
        "    env.close()\n"
    )
    assert run(code, str(tmp_path)) == "(4,) False\n(4,) False\n"


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("[::1]", True),
        ("localhost.evil.com", False),
        ("evil.com?x=localhost", False),
        ("user:localhost@evil.com", False),
        ("127.0.0.1.evil.com", False),
        ("[::ffff:127.0.0.1]", True),
    ],
)
def test_f086_a_host_is_local_when_it_is_not_when_it_looks_so(host: str, local: bool) -> None:
    endpoint = parse_endpoint(f"ws://{host}")
    assert endpoint.local is local
    assert is_loopback(endpoint.host) is local


def test_a_spec_holds_what_was_given_and_no_more(cart: Callable[..., gym.Env[Any, Any]]) -> None:
    spec = cart().spec
    assert spec is not None
    assert set(json.loads(spec.to_json())["kwargs"]) == {"target", "time_limit", "base_url"}
    assert (spec.id, spec.max_episode_steps, spec.reward_threshold) == ("remote/CartPole-v1", 500, 475.0)
