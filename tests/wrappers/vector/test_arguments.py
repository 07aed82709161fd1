from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from openenv_gym.errors import ConfigError
from openenv_gym.wrappers.vector.arguments import Arguments, autoreset_of, take_arguments

OWN: dict[str, Any] = {
    "num_envs": 4,
    "servers": None,
    "lanes": None,
    "lanes_per_worker": None,
    "lane_threads": None,
    "autoreset_mode": None,
    "max_episode_steps": None,
    "max_restarts": 10,
}


def take(**kwargs: Any) -> Arguments:
    own = {name: kwargs.pop(name, default) for name, default in OWN.items()}
    return take_arguments(kwargs, **own)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_mode_is_a_member_a_value_or_a_name(mode: AutoresetMode) -> None:
    assert autoreset_of(mode) is autoreset_of(mode.value) is autoreset_of(mode.name) is mode


def test_the_default_mode_is_the_one_that_most_wrappers_take() -> None:
    assert autoreset_of(None) is AutoresetMode.NEXT_STEP
    assert autoreset_of(None, native=True) is None


@pytest.mark.parametrize("mode", ["nextstep", 1, True, AutoresetMode])
def test_another_mode_is_refused(mode: Any) -> None:
    with pytest.raises(ConfigError, match="write 'NextStep', 'SameStep', 'Disabled'"):
        autoreset_of(mode)


def test_one_server_is_the_default() -> None:
    found = take(size=3)
    assert (len(found.servers), found.numbered, found.lane_kwargs) == (1, False, None)
    assert found.servers[0].env_kwargs == {"size": 3}
    assert (found.lane_threads, found.max_episode_steps, found.max_restarts) == (0, None, 10)


def test_several_addresses_are_several_servers() -> None:
    found = take(base_url=["ws://a:1", "unix:/b"], token="t", step_timeout=3)
    assert [server.base_url for server in found.servers] == ["ws://a:1", "unix:/b"]
    assert {(server.token, server.step_timeout) for server in found.servers} == {("t", 3.0)}
    assert not found.numbered


def test_a_number_of_servers_is_started_whatever_the_variables_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_BASE_URL", "ws://elsewhere:1")
    found = take(servers=2)
    assert [(server.base_url, server.provider) for server in found.servers] == [(None, "process")] * 2
    assert found.numbered
    assert take(servers=2, provider="inprocess").servers[1].provider == "inprocess"


def test_each_lane_may_have_arguments_of_its_own() -> None:
    found = take(num_envs=2, env_kwargs=[{"a": 1}, {"a": 2}], size=3)
    assert found.lane_kwargs == [{"size": 3, "a": 1}, {"size": 3, "a": 2}]


@pytest.mark.parametrize("auto", [None, "auto"])
def test_threads_are_the_servers_choice_unless_they_are_given(auto: Any) -> None:
    assert take(lane_threads=auto).lane_threads == 0
    assert take(lane_threads=3).lane_threads == 3


@pytest.mark.parametrize("unlimited", [None, -1])
def test_no_limit_of_steps(unlimited: Any) -> None:
    assert take(max_episode_steps=unlimited).max_episode_steps is None
    assert take(max_episode_steps=9).max_episode_steps == 9


def test_numbers_of_numpy_are_numbers() -> None:
    found = take(num_envs=np.int64(6), servers=np.int32(2), lanes_per_worker=np.uint8(3))
    assert (found.num_envs, len(found.servers), found.lanes_per_worker) == (6, 2, 3)
    assert {type(found.num_envs), type(found.lanes_per_worker)} == {int}


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"num_envs": 0}, "num_envs is 0; write a whole number, at least 1"),
        ({"num_envs": 2.0}, "num_envs is 2.0"),
        ({"num_envs": True}, "num_envs is True"),
        ({"lanes": 8}, "the number of lanes is num_envs"),
        ({"lanes": "many"}, "write 'native'"),
        ({"servers": 0}, "servers is 0"),
        ({"servers": 5}, "4 lanes cannot be spread over 5 servers"),
        ({"servers": 5000, "num_envs": 9999}, "at most 4096"),
        ({"servers": 2, "base_url": "ws://a"}, "exclude each other"),
        ({"servers": 2, "base_url": ["ws://a"]}, "exclude each other"),
        ({"base_url": []}, "an empty list"),
        ({"base_url": ["ws://a", "b:1"]}, "has no scheme"),
        ({"lanes_per_worker": 0}, "lanes_per_worker is 0"),
        ({"lane_threads": 0}, "lane_threads is 0"),
        ({"max_restarts": -1}, "max_restarts is -1; write a whole number, at least 0"),
        ({"max_episode_steps": 0}, "max_episode_steps is 0"),
        ({"env_kwargs": [{}]}, "env_kwargs lists 1 dicts; num_envs=4 lanes need one each"),
        ({"env_kwargs": [{}, {}, {}, 3]}, r"env_kwargs\[3\] is a int"),
        ({"env_kwargs": [{"a": 1}] * 4, "a": 2}, "'a' is given twice"),
        ({"env_kwargs": [{}] * 4, "lanes": "native"}, "one set of arguments"),
    ],
)
def test_what_is_impossible_is_said_before_anything_starts(kwargs: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        take(**kwargs)
