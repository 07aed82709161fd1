from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from gymnasium.vector import SyncVectorEnv

from openenv_gym.testing import check_vector_env

from .vectors import problems

NEXT = "NextStep"


def pendulum() -> gym.Env[Any, Any]:
    return gym.make("Pendulum-v1", disable_env_checker=True)


def test_wrappers_run_on_boxes() -> None:
    envs = SyncVectorEnv([pendulum] * 2)
    assert check_vector_env(envs, steps=5).outcome("wrapping") == "kept"


def test_a_wrapper_that_fails_is_named() -> None:
    class Text(SyncVectorEnv):
        def __init__(self, env_fns: Any, **options: Any) -> None:
            super().__init__(env_fns, **options)
            self.metadata["autoreset_mode"] = self.autoreset_mode.value

    found = problems(Text, steps=4)["wrapping"]
    assert found == {
        "-": "RecordEpisodeStatistics: TypeError: Expected env.metadata['autoreset_mode'] to be an"
        " AutoresetMode, got <class 'str'>"
    }


def test_statistics_are_those_of_the_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    class Doubling(gym.wrappers.vector.RecordEpisodeStatistics):
        def step(self, actions: Any) -> Any:
            result = super().step(actions)
            if self._stats_key in result[-1]:
                result[-1][self._stats_key]["l"] *= 2
            return result

    monkeypatch.setattr("gymnasium.wrappers.vector.RecordEpisodeStatistics", Doubling)
    found = problems(SyncVectorEnv, steps=40)
    assert set(found) == {"statistics"}
    assert "lane 0: return 13.0, length 26, not 13.0 and 13" in found["statistics"][NEXT]


def test_lists_have_what_the_masks_say() -> None:
    class Unmasked(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            *rest, infos = super().step(actions)
            return (*rest, {**infos, "x": list(range(3)), "_x": [True] * 3})

    found = problems(Unmasked, steps=3, skip=["wrapping"])
    assert "raised" in found["lists"][NEXT]


def test_garbage_collection_closes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Eager(gym.vector.VectorWrapper):
        def __del__(self) -> None:
            self.env.close()

    monkeypatch.setattr("openenv_gym.testing.vector_wrappers.VectorWrapper", Eager)
    assert problems(SyncVectorEnv, steps=3) == {
        "garbage": dict.fromkeys([NEXT, "SameStep", "Disabled"], "the env is closed afterwards")
    }
