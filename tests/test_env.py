from __future__ import annotations

import contextlib
import copy
import gc
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

import openenv_gym
from openenv_gym.client.sync import Connection
from openenv_gym.env import RemoteEnv
from openenv_gym.errors import (
    ArgumentError,
    AuthenticationError,
    ConfigError,
    EnvClosedError,
    InterruptedStepError,
    InvalidActionError,
    NotCopyableError,
    RemoteEnvironmentError,
    RemoteProtocolError,
    ResetNeededError,
    ServerConnectionError,
    SessionLostError,
    UnsupportedError,
    ValueNotCarriedError,
)
from openenv_gym.protocol import messages as m
from openenv_gym.providers.base import _shared
from tests.client.scripted import Life, interrupt_when
from tests.support.counting import WELCOME, count, counting, scripted
from tests.support.serverproc import eventually

ENVS = "tests.support.testenvs"


def local(name: str, **kwargs: Any) -> RemoteEnv:
    """Return an env whose server runs in threads of this process."""
    return RemoteEnv(f"{ENVS}:{name}", provider="inprocess", **kwargs)


@pytest.fixture(autouse=True, scope="module")
def _stop_servers() -> Iterator[None]:
    yield
    for provider in _shared.values():
        provider.stop()


# -- steps


def test_steps_are_those_of_the_environment() -> None:
    remote = RemoteEnv("CartPole-v1", provider="inprocess")
    here = gym.make("CartPole-v1").unwrapped
    assert (remote.observation_space, remote.action_space) == (here.observation_space, here.action_space)
    remote.action_space.seed(7)
    there, same = remote.reset(seed=3), here.reset(seed=3)
    for _ in range(200):
        assert there[0].tobytes() == same[0].tobytes()
        assert there[1:] == same[1:]
        action = remote.action_space.sample()
        there, same = remote.step(action), here.step(action)
        assert [type(value) for value in there] == [type(value) for value in same]
        if there[2]:
            there, same = remote.reset(), here.reset()
    remote.close()
    here.close()


def test_check_env_passes() -> None:
    env = gym.make("remote/FrozenLake-v1", provider="inprocess")
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_seed_and_options_arrive_as_they_are() -> None:
    env = local("OptionsEnv", size=8, env_kwargs={"token": "mine"})
    _, info = env.reset(seed=2**70, options={"game": "pong", "players": (1, None)})
    assert info["seed"] == 2**70
    assert info["options"] == {"game": "pong", "players": (1, None)}
    assert info["kwargs"] == {"size": 8, "token": "mine"}
    _, info = env.reset()
    assert info["seed"] is None
    assert info["options"] is None
    assert env.np_random_seed == 2**70
    with pytest.raises(ValueNotCarriedError, match=r"options\['f'\]"):
        env.reset(options={"f": print})
    env.close()


def test_objects_are_new_in_every_call() -> None:
    with scripted() as server, contextlib.closing(counting(server)) as env:
        first, info = env.reset()
        second, _, _, _, other = env.step(0)
        assert info is not other
        assert first == 0
        assert second == 1


def test_an_action_outside_the_space_is_refused_here() -> None:
    with scripted() as server, contextlib.closing(counting(server)) as env:
        env.reset()
        with pytest.raises(InvalidActionError, match="action"):
            env.step(2)
        assert "step" not in server.seen
        assert env.step(1)[0] == 1


@pytest.mark.parametrize("flags", range(16))
def test_flags_have_the_type_the_environment_gave(flags: int) -> None:
    def answer(request: Any, life: Life) -> Any:
        reply = count(request, life)
        if isinstance(reply, m.Transition):
            reply.flags = bytes([flags])
        return reply

    with scripted(answer) as server, contextlib.closing(counting(server)) as env:
        env.reset()
        terminated, truncated = env.step(0)[2:4]
        assert (bool(terminated), bool(truncated)) == (bool(flags & 1), bool(flags & 2))
        assert type(terminated) is (np.bool_ if flags & 4 else bool)
        assert type(truncated) is (np.bool_ if flags & 8 else bool)


def test_a_cast_is_warned_about_here() -> None:
    env = local("BadObsEnv", kind="float64")
    with pytest.warns(UserWarning, match="float64"):
        observation, _ = env.reset()
    assert observation["x"].dtype == np.float32
    env.close()


def test_what_the_environment_raises_is_raised_with_its_traceback() -> None:
    env = local("CrashEnv", at=2)
    env.reset()
    env.step(0)
    with pytest.raises(RemoteEnvironmentError) as caught:
        env.step(0)
    assert "In the environment:\nTraceback" in str(caught.value)
    assert "faultenvs.py" in str(caught.value)
    assert env.step(0)[0] is not None
    env.close()


def test_what_the_environment_raises_is_never_a_transition() -> None:
    env = local("CrashEnv", at=1, on_error="truncate")
    env.reset()
    with pytest.raises(RemoteEnvironmentError):
        env.step(0)
    env.close()


# -- the order of calls


def test_a_step_needs_a_reset() -> None:
    with scripted() as server, contextlib.closing(counting(server)) as env:
        with pytest.raises(ResetNeededError, match=r"call reset\(\) first"):
            env.step(0)
        env.reset()
        assert env.step(0)[0] == 1


def test_a_failed_reset_leaves_nothing_to_step() -> None:
    env = local("CrashEnv", where="reset", at=2)
    env.reset()
    with pytest.raises(RemoteEnvironmentError):
        env.reset()
    with pytest.raises(ResetNeededError, match=r"the last reset\(\) failed"):
        env.step(0)
    env.reset()
    env.step(0)
    env.close()


def test_a_closed_env_says_so() -> None:
    with scripted() as server:
        env = counting(server)
        env.reset()
        env.close()
        env.close()
        for call in (lambda: env.step(0), env.reset, env.render, lambda: env.gravity):
            with pytest.raises(EnvClosedError, match="make a new one"):
                call()
        assert server.seen == ["hello", "reset", "close"]


def test_an_interrupted_step_leaves_the_env_usable() -> None:
    with scripted() as server, contextlib.closing(counting(server)) as env:
        env.reset()
        server.hold.clear()
        with interrupt_when(lambda: server.seen[-1:] == ["step"]), pytest.raises(KeyboardInterrupt):
            env.step(0)
        server.hold.set()
        for call in (lambda: env.step(0), env.render, lambda: env.gravity):
            with pytest.raises(InterruptedStepError, match="the last step was interrupted"):
                call()
        assert env.reset()[0] == 0
        assert env.step(0)[0] == 1
        assert set(server.executed.values()) == {1}


def test_an_interrupted_render_changes_nothing() -> None:
    with scripted() as server, contextlib.closing(counting(server, render_mode="ansi")) as env:
        env.reset()
        server.hold.clear()
        with interrupt_when(lambda: server.seen[-1:] == ["render"]), pytest.raises(KeyboardInterrupt):
            env._ask(m.Render)
        server.hold.set()
        assert env.step(0)[0] == 1


# -- failures


def test_a_failure_can_be_a_truncation_that_says_so() -> None:
    with scripted() as server, contextlib.closing(counting(server, on_error="truncate")) as env:
        env.reset()
        last = env.step(0)[0]
        server.script.extend(["request", "kill"])
        observation, reward, terminated, truncated, info = env.step(0)
        assert (observation, reward, terminated, truncated) == (last, 0.0, False, True)
        assert info["openenv"]["error"] == "session_lost"
        assert "does not know this session" in info["openenv"]["message"]
        assert info["openenv"]["server"] == server.base_url
        with pytest.raises(ResetNeededError):
            env.step(0)
        env.reset()
        assert env.step(0)[0] == 1


# -- attributes and frames


def test_attributes_are_reached_as_training_code_does() -> None:
    env = gym.make("openenv/Gym-v0", env_id=f"{ENVS}:AttrEnv", provider="inprocess")
    assert env.get_wrapper_attr("gravity") == 9.8
    assert env.unwrapped.greeting == "hello"  # type: ignore[attr-defined]
    assert env.has_wrapper_attr("gravity")
    assert not env.has_wrapper_attr("levity")
    assert env.set_wrapper_attr("gravity", 3.0)
    assert env.get_wrapper_attr("gravity") == 3.0
    with pytest.raises(AttributeError):
        env.get_wrapper_attr("levity")
    table = env.unwrapped.table  # type: ignore[attr-defined]
    assert table["a"].dtype == np.int16
    env.close()


def test_frames_are_those_of_the_environment() -> None:
    env = gym.make(
        "openenv/Gym-v0", env_id=f"{ENVS}:RenderEnv", provider="inprocess", render_mode="rgb_array"
    )
    assert env.metadata == {"render_modes": ["rgb_array", "ansi"], "render_fps": 50}
    assert env.render_mode == "rgb_array"
    env.reset()
    frame: Any = env.render()
    assert frame.shape == (6, 8, 3)
    assert frame.dtype == np.uint8
    env.close()


def test_frame_lists_are_collected_here() -> None:
    env = gym.make(
        "openenv/Gym-v0", env_id=f"{ENVS}:RenderEnv", provider="inprocess", render_mode="ansi_list"
    )
    env.reset()
    env.step(0)
    frames: Any = env.render()
    assert len(frames) == 2
    assert all(isinstance(frame, str) for frame in frames)
    env.close()


def test_an_unsupported_render_mode_fails_in_the_constructor() -> None:
    with pytest.raises(ArgumentError, match="does not support render_mode 'ansi'"):
        RemoteEnv("CartPole-v1", render_mode="ansi", provider="inprocess")


def test_rendering_without_a_mode_is_warned_about() -> None:
    with scripted() as server, contextlib.closing(counting(server)) as env:
        env.reset()
        with pytest.warns(UserWarning, match="without a render_mode"):
            env.render()


# -- arguments


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({}, "pass base_url="),
        ({"env_id": None}, "pass env_id="),
        ({"target": 7}, "is a text, such as 'CartPole-v1', not 7"),
        ({"target": ""}, "is a text"),
        ({"target": "echo", "time_limit": 100}, "goes into env_kwargs"),
        ({"target": "echo", "step_timeout": 0}, "step_timeout is 0"),
        ({"target": "echo", "step_timout": 1}, "did you mean 'step_timeout'"),
        ({"base_url": "localhost:1"}, "no scheme"),
    ],
)
def test_wrong_arguments_fail_before_anything_starts(kwargs: dict[str, Any], says: str) -> None:
    before = dict(_shared)
    with pytest.raises(ConfigError, match=says):
        RemoteEnv(**kwargs)
    assert before == _shared


def test_the_environment_of_another_id_is_refused() -> None:
    with scripted() as server, contextlib.closing(counting(server)) as env:
        assert env.base_url == server.base_url
        assert next(iter(server.sessions.values())).hello.expect is None
    with scripted() as server, contextlib.closing(counting(server, target="echo")):
        assert next(iter(server.sessions.values())).hello.expect == "echo"


def test_secrets_stay_out_of_the_spec() -> None:
    with scripted() as server:
        url = server.base_url.replace("ws://", "ws://me:pw@")
        headers = {"X-Key": "k3y"}
        env = gym.make("openenv/Remote-v0", base_url=url, headers=headers)
        first = env.unwrapped.spec
        assert isinstance(first, EnvSpec)
        for text in (first.to_json(), repr(first), repr(env.spec), str(env.unwrapped), env.spec.pprint(True)):  # type: ignore[union-attr]
            assert "pw" not in text.replace("pprint", "")
            assert "k3y" not in text
        env.close()
        again = gym.make(env.spec)  # type: ignore[arg-type]
        again.close()
        assert [head["X-Key"] for head in server.headers] == ["k3y", "k3y"]
        assert len({head["Authorization"] for head in server.headers}) == 1
        assert headers == {"X-Key": "k3y"}


def test_a_token_is_checked_and_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    env = local("CounterEnv")
    opener = env._opener
    assert opener is not None and opener.provider is not None
    token = opener.provider.token
    assert token
    for wrong in (None, "wrong"):
        with pytest.raises(AuthenticationError) as caught:
            RemoteEnv(base_url=env.base_url, token=wrong)
        assert "wrong " not in str(caught.value).replace("token is wrong", "")
    other = gym.make("openenv/Remote-v0", base_url=env.base_url, token=token)
    other.reset()
    assert token not in other.spec.to_json()  # type: ignore[union-attr]
    other.close()
    env.close()
    # What a server in this process logs is the server's business.
    ours = [record for record in caplog.records if record.name != "websockets.server"]
    assert not [record for record in ours if token in record.getMessage()]


def test_a_live_env_is_not_copied() -> None:
    with scripted() as server, contextlib.closing(counting(server)) as env:
        for copier in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(NotCopyableError, match=r"gym.make\(env.spec\)"):
                copier(env)


def test_an_env_that_is_dropped_warns_and_ends_its_session() -> None:
    with scripted() as server:
        env = counting(server)
        env.reset()
        with pytest.warns(ResourceWarning, match=r"was not closed; call close\(\)"):
            del env
            gc.collect()
        assert eventually(lambda: server.seen[-1] == "close")


def test_a_constructor_that_fails_leaves_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Connection] = []
    monkeypatch.setattr(Connection, "close", lambda self: (closed.append(self), self.drop())[1])
    with scripted(welcome={**WELCOME, "action_space": {"type": "nonsense"}}) as server:
        with pytest.raises(RemoteProtocolError):
            counting(server)
    assert len(closed) == 1


def test_threads_may_step_in_turns() -> None:
    with scripted() as server, contextlib.closing(counting(server)) as env:
        env.reset()
        seen: list[int] = []

        def work() -> None:
            seen.extend(int(env.step(0)[0]) for _ in range(10))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(seen) == list(range(1, 81))


# -- the embedded default


def test_the_embedded_server_is_started_again_when_it_was_killed() -> None:
    env = RemoteEnv("echo", provider_kwargs={"workers": 1})
    opener = env._opener
    assert opener is not None and opener.provider is not None
    env.reset()
    os.kill(opener.provider._pid, signal.SIGKILL)  # type: ignore[attr-defined]
    with pytest.raises((ServerConnectionError, SessionLostError), match="killed"):
        for _ in range(100_000):  # some steps may be done before the worker knows
            env.step("still there?")
    env.reset()
    env.step("again")
    env.close()


def test_what_an_environment_prints_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "openenv_gym.server")
    with contextlib.closing(RemoteEnv(f"{ENVS}:PrintEnv", provider_kwargs={"workers": 1})) as env:
        env.reset()
        env.step(0)
        opener = env._opener
        assert opener is not None
        for text in ("built on stdout", "step 0 line 0"):
            # It comes through the server process, which may be later than the reply.
            assert eventually(lambda text=text: opener.forward() or text in caplog.text)


def test_a_process_that_imported_only_gymnasium_makes_a_mirror() -> None:
    code = """
import gymnasium as gym
env = gym.make("openenv_gym:remote/CartPole-v1")
spec = env.spec.to_json()
print(env.reset(seed=1)[0])
env.close()
again = gym.envs.registration.EnvSpec.from_json(spec).make()
print(again.reset(seed=1)[0])
again.close()
"""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == second
    assert done.stderr == ""


def test_an_async_vector_env_shares_one_server() -> None:
    before = set(_shared)
    vector = gym.vector.AsyncVectorEnv([lambda: gym.make("remote/CartPole-v1")] * 2)
    observations, _ = vector.reset(seed=1)
    assert observations.shape == (2, 4)
    vector.step(np.array([0, 1]))
    vector.close()
    started = [key[:2] for key in set(_shared) - before]
    assert started in ([], [("process", "CartPole-v1")])  # none, if an earlier test left one


def test_version_is_said_to_the_server() -> None:
    with scripted() as server, contextlib.closing(counting(server)):
        assert next(iter(server.sessions.values())).hello.client == f"openenv_gym/{openenv_gym.__version__}"


def test_the_state_of_a_typed_environment_is_told() -> None:
    env = RemoteEnv("tests.client.sleeper:Sleeper", provider="inprocess")
    assert env.remote_state()["step_count"] == 0
    env.reset()
    env.step({"seconds": np.zeros(()), "say": "hi"})
    assert env.remote_state()["step_count"] == 1
    env.close()
    plain = RemoteEnv("CartPole-v1", provider="inprocess")
    with pytest.raises(UnsupportedError, match="has no state"):
        plain.remote_state()
    plain.reset()
    plain.close()
