from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from openenv_gym.errors import ValueNotCarriedError
from openenv_gym.protocol.specs import from_spec
from openenv_gym.wrappers.recording import Recorder
from openenv_gym.wrappers.trajectory import RaisedCall, ResetCall, Trajectory
from tests.support.testenvs import OptionsEnv


def recorder(folder: Path, env: Any = None) -> Recorder:
    return Recorder(str(folder), "t", "env", env or OptionsEnv())


def test_nothing_is_written_before_the_first_call(tmp_path: Path) -> None:
    subject = recorder(tmp_path)
    assert subject.path is None
    subject.close()
    assert list(tmp_path.iterdir()) == []


def test_the_first_reset_gets_a_seed(tmp_path: Path) -> None:
    subject, seen = recorder(tmp_path), list[Any]()

    def reset(seed: Any) -> Any:
        seen.append(seed)
        return 0, {}

    subject.reset(None, None, reset)
    subject.reset(None, None, reset)
    subject.close()
    assert isinstance(seen[0], int) and seen[1] is None
    assert subject.path is not None
    calls = list(Trajectory(subject.path))
    assert [call.seed for call in calls if isinstance(call, ResetCall)] == seen


def test_a_seed_that_is_given_is_kept(tmp_path: Path) -> None:
    subject, seen = recorder(tmp_path), list[Any]()
    subject.reset([3, None], None, lambda seed: (seen.append(seed), (0, {}))[1])
    subject.reset(None, None, lambda seed: (seen.append(seed), (0, {}))[1])
    subject.close()
    assert seen == [[3, None], None]


def test_options_are_written_as_they_were_given(tmp_path: Path) -> None:
    subject, options = recorder(tmp_path), {"reset_mask": 1}
    subject.reset(1, options, lambda seed: (options.clear(), (0, {}))[1])
    subject.close()
    (call,) = Trajectory(str(subject.path))
    assert isinstance(call, ResetCall)
    assert call.options == {"reset_mask": 1}


def test_a_call_that_raises_is_written_and_raises(tmp_path: Path) -> None:
    def fail(action: Any) -> Any:
        raise KeyError("x")

    subject = recorder(tmp_path)
    with pytest.raises(KeyError):
        subject.step(3, fail)
    subject.close()
    assert list(Trajectory(str(subject.path))) == [RaisedCall(call="step", given=[3], error="KeyError: 'x'")]


def test_what_has_no_form_is_refused_before_the_call(tmp_path: Path) -> None:
    subject = recorder(tmp_path)
    with pytest.raises(ValueNotCarriedError, match=r"options\['x'\]"):
        subject.reset(1, {"x": object()}, pytest.fail)
    with pytest.raises(ValueNotCarriedError, match="action"):
        subject.step(object(), pytest.fail)
    assert subject.path is None


def test_the_header_says_what_was_recorded(tmp_path: Path) -> None:
    env = gym.make("CartPole-v1", max_episode_steps=9)
    subject = recorder(tmp_path, env)
    subject.reset(1, None, lambda seed: env.reset(seed=seed))
    subject.close()
    header = Trajectory(str(subject.path)).header
    assert (header.kind, header.num_envs) == ("env", 1)
    assert header.spec is not None and '"max_episode_steps": 9' in header.spec
    assert from_spec(header.observation_space) == env.observation_space
    assert from_spec(header.action_space) == env.action_space
    assert header.versions["gymnasium"] == gym.__version__


def test_a_spec_or_space_without_a_form_is_left_out(tmp_path: Path) -> None:
    class Odd(gym.Space[Any]):
        pass

    env: gym.Env[Any, Any] = OptionsEnv()
    env.observation_space = Odd()
    env.spec = gym.envs.registration.EnvSpec("Odd-v0", lambda: env)
    subject = recorder(tmp_path, env)
    subject.step(1, lambda action: (0, 0.0, False, False, {}))
    subject.close()
    header = Trajectory(str(subject.path)).header
    assert header.spec is None and header.observation_space is None
