from __future__ import annotations

import contextlib
import random
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from openenv_gym.env import RemoteEnv
from openenv_gym.errors import InterruptedStepError
from openenv_gym.protocol import messages as m
from openenv_gym.providers.base import _shared
from tests.support.counting import counting, scripted
from tests.support.interrupts import collect_all, interrupter, main_thread_alone
from tests.support.serverproc import eventually


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    yield
    collect_all()


def _interrupted(*_: object) -> Any:
    raise KeyboardInterrupt


def _refused(env: RemoteEnv, what: str) -> None:
    calls: list[Callable[[], object]] = [lambda: env.step(0), env.render, lambda: env.gravity]
    for call in calls:
        with pytest.raises(InterruptedStepError, match=f"the last {what} was interrupted"):
            call()
    assert env.reset()[0] == 0
    assert env.step(0)[0] == 1


def test_a_step_whose_reply_was_not_read_does_not_pass_for_one_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with scripted() as server, contextlib.closing(counting(server)) as env:
        env.reset()
        with monkeypatch.context() as patch:
            patch.setattr(env, "_decode_observation", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                env.step(0)
        _refused(env, "step")


def test_an_interrupt_while_one_is_dealt_with_does_not_hide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted() as server, contextlib.closing(counting(server)) as env:
        env.reset()
        assert env._connection is not None
        with monkeypatch.context() as patch:
            patch.setattr(env._connection, "request", _interrupted)
            patch.setattr(env, "_step_failed", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                env.step(0)
        _refused(env, "step")


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda env: env.reset(), "reset"),
        (lambda env: env._ask(m.Call, "jump"), "method call"),
        (lambda env: env._ask(m.Set, "level", [1]), "assignment"),
    ],
)
def test_what_changes_the_environment_needs_a_reset_once_interrupted(
    call: Callable[[RemoteEnv], object], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted() as server, contextlib.closing(counting(server)) as env:
        env.reset()
        assert env._connection is not None
        with monkeypatch.context() as patch:
            patch.setattr(env._connection, "request", _interrupted)
            patch.setattr(env, "_failed", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                call(env)
        _refused(env, what)


def test_another_thread_waits_while_a_step_is_under_way() -> None:
    with scripted() as server, contextlib.closing(counting(server, render_mode="ansi")) as env:
        env.reset()
        server.hold.clear()
        with ThreadPoolExecutor(2) as pool:
            stepping = pool.submit(env.step, 0)
            assert eventually(lambda: server.seen[-1:] == ["step"])
            rendering = pool.submit(env._ask, m.Render)
            server.hold.set()
            assert (stepping.result()[0], rendering.result().frames) == (1, ["frame"])
        assert server.seen[-2:] == ["step", "render"]


# Between the making of a socket and the name that is given to it an interrupt leaves it to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
@pytest.mark.timeout(method="thread")
def test_no_interrupt_whenever_it_comes_loses_or_invents_a_step() -> None:
    with main_thread_alone():
        env = RemoteEnv("tests.support.faultenvs:CounterEnv", provider="inprocess", step_timeout=30.0)
    try:
        env.reset()
        steps = 0
        with interrupter(random.Random(0), 6e-4) as interrupts:
            while interrupts.count < 300:
                try:
                    observation = interrupts.call(lambda: env.step(0)[0])
                except KeyboardInterrupt:
                    try:
                        observation = env.step(0)[0]
                    except InterruptedStepError:
                        observation = env.reset()[0]
                        steps = -1
                steps += 1
                assert observation == steps
    finally:
        env.close()
        for provider in _shared.values():
            provider.stop()
