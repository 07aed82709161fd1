"""What lanes need to know of a target, and the time limit that a client sets."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import pytest

from openenv_gym.servers import modules
from openenv_gym.servers.targets import resolve

_HERE = "tests.servers.test_targets_lanes"


class TenEnv(gym.Env[Any, Any]):
    """Never ends."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "lane_threads": 3}
    observation_space = action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 0, 0.0, False, False, {}


def factory() -> TenEnv:
    """Build one."""
    return TenEnv()


def test_the_metadata_of_a_class_are_known_before_anything_is_built() -> None:
    assert resolve(f"{_HERE}:TenEnv").metadata()["lane_threads"] == 3
    assert "render_fps" in resolve("CartPole-v1").metadata()
    assert resolve(f"{_HERE}:factory").metadata() == {}


@pytest.mark.parametrize("target", ["CartPole-v1", f"{_HERE}:TenEnv", f"{_HERE}:factory"])
@pytest.mark.parametrize("time_limit", [True, False])
def test_the_clients_time_limit_replaces_that_of_the_registration(target: str, time_limit: bool) -> None:
    env = resolve(target).build(time_limit=time_limit, episode=3)
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]
    assert str(env).count("TimeLimit") == 1
    env.close()


def test_whether_a_signature_names_an_argument() -> None:
    assert modules.names(lambda size: None, "size")
    assert not modules.names(lambda **kwargs: None, "size")
    assert not modules.names(min, "size")
