"""What stands beside reset and step: attributes, methods, options, copies."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics

from openenv_gym.env import RemoteEnv
from openenv_gym.errors import (
    ForbiddenError,
    NotCopyableError,
    RemoteEnvironmentError,
    RemoteProtocolError,
    ValueNotCarriedError,
)
from openenv_gym.protocol.codec import decode_request, encode
from openenv_gym.protocol.messages import Reset
from openenv_gym.testing import same
from tests.conformance.serving import Cell, serve
from tests.support.testenvs import MaskedEnv

Remote = Callable[..., RemoteEnv]


def test_attributes_are_read_set_and_found_through_wrappers(remote: Remote) -> None:
    env = RecordEpisodeStatistics(remote("AttrEnv"))
    assert (env.get_wrapper_attr("gravity"), env.unwrapped.greeting) == (9.8, "hello")  # type: ignore[attr-defined]
    assert same(env.get_wrapper_attr("table"), {"a": np.arange(3, dtype=np.int16)})
    assert env.has_wrapper_attr("gravity") and not env.has_wrapper_attr("levity")
    env.set_wrapper_attr("gravity", np.float32(3.5))
    env.reset()
    assert same(env.step(0)[4]["gravity"], np.float32(3.5))
    for name in ("levity", "_secret"):
        with pytest.raises(AttributeError, match=name):
            getattr(env.unwrapped, name)


def test_methods_run_in_the_environment(remote: Remote) -> None:
    env = remote("AttrEnv")
    env.reset()
    assert env.add(np.float32(1), right=2.5) == 3.5
    assert env.add((1,), (2,)) == (1, 2)
    assert callable(env.get_wrapper_attr("action_masks"))
    with pytest.raises(RemoteEnvironmentError, match=r"KeyError: 'x'(?s:.*)in fail"):
        env.fail()
    with pytest.raises(RemoteEnvironmentError, match="TypeError: can only concatenate str"):
        env.add("a")
    with pytest.raises(ValueNotCarriedError, match=r"add\(\) argument 0"):
        env.add(object())
    with pytest.raises(RemoteEnvironmentError, match="this property is broken"):
        _ = env.broken
    assert env.step(0)[1] == 1.0


def test_action_masks_are_called_as_masking_libraries_do(remote: Remote) -> None:
    env, local = remote("MaskedEnv"), MaskedEnv()
    for each in (env, local):
        each.reset(seed=1)
    for _ in range(6):
        mask = env.action_masks()
        assert same(mask, local.action_masks())
        assert same(env.step(int(np.argmax(mask))), local.step(int(np.argmax(mask))))


def test_access_to_attributes_can_be_switched_off(tmp_path: Path) -> None:
    with serve(
        "tests.support.testenvs:AttrEnv", Cell("thread", "handover", "unix"), tmp_path, attributes=False
    ) as url:
        env = RemoteEnv(base_url=url)
        with pytest.raises(AttributeError, match="attributes off"):
            _ = env.gravity
        with pytest.raises(ForbiddenError):
            env.gravity = 1.0
        env.reset()
        env.close()


def test_f069_f070_seed_and_options_arrive_as_they_are(remote: Remote) -> None:
    env = remote("OptionsEnv")
    options = {"sede": 1, "game": "pong", "players": 4, "deep": {"a": (None, np.int8(3))}}
    info = env.reset(seed=3, options=options)[1]
    assert same((info["seed"], info["options"]), (3, options))
    info = env.reset()[1]
    assert same((info["seed"], info["options"]), (None, None))
    assert same(env.reset(options={})[1]["options"], {})


def test_f070_an_unknown_field_of_a_message_is_named() -> None:
    frame = encode(Reset(1, None, None))
    assert decode_request(frame) == Reset(1, None, None)
    # One field more in the map.
    wrong = bytes([frame[0] + 1]) + frame[1:] + b"\xa4sede\x01"
    with pytest.raises(RemoteProtocolError, match="sede"):
        decode_request(wrong)


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_live_env_says_how_to_make_another(remote: Remote, copier: Callable[[Any], Any]) -> None:
    env = remote("AttrEnv")
    with pytest.raises(NotCopyableError, match=r"make another with gym.make\(env.spec\).*lambda: gym.make"):
        copier(env)
    with pytest.raises(NotCopyableError):
        copy.deepcopy(RecordEpisodeStatistics(env))
    env.reset()


def test_what_the_environment_raises_is_told_with_its_place(remote: Remote) -> None:
    env = remote("CrashEnv", how="exception", at=2)
    env.reset()
    env.step(0)
    with pytest.raises(
        RemoteEnvironmentError, match=r"(?s)KeyError: 'the environment failed'.*faultenvs.py"
    ) as caught:
        env.step(0)
    assert caught.value.details["type"] == "KeyError"
    assert env.step(0)[0] == 3  # it decides itself whether it goes on


def test_a_constructor_that_fails_is_told_where_the_env_is_made(remote: Remote) -> None:
    with pytest.raises(RemoteEnvironmentError, match="construction 0 fails on purpose"):
        remote("FailingInitEnv")
    with pytest.raises(RemoteEnvironmentError, match="unexpected keyword argument 'sede'"):
        remote("CounterEnv", sede=1)


def test_gym_make_passes_the_errors_on(server: str) -> None:
    with pytest.raises(RemoteEnvironmentError, match="unexpected keyword argument 'sede'"):
        gym.make("openenv/Remote-v0", base_url=server, name="CounterEnv", sede=1)
