from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from openenv_gym.errors import ConfigError, StartupError
from openenv_gym.providers import base
from openenv_gym.providers.base import Provider, provider_class, shared_provider, sweep


class Counting(Provider):
    """Counts what is asked of it."""

    swept = 0

    def __init__(self, target: str, *, size: int = 1) -> None:
        super().__init__(target, size=size)
        self.calls: list[str] = []
        self.running = False
        self.fails = False

    def start(self) -> str:
        self.calls.append("start")
        return f"unix:/{len(self.calls)}"

    def wait_ready(self, timeout: float | None) -> None:
        if self.fails:
            raise StartupError("no")
        self.running = True

    def alive(self) -> bool:
        return self.running

    def stop(self) -> None:
        self.calls.append("stop")
        self.running = False

    @classmethod
    def sweep(cls) -> None:
        Counting.swept += 1


NAME = f"{__name__}:Counting"


@pytest.fixture(autouse=True)
def _own_servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(base, "_shared", {})
    yield


def counting(*args: Any, **options: Any) -> Counting:
    provider = shared_provider(NAME, *args, options)
    assert isinstance(provider, Counting)
    return provider


def test_one_provider_for_each_target_and_options() -> None:
    first = counting("echo")
    assert counting("echo") is first
    assert counting("other") is not first
    assert counting("echo", size=2) is not first
    assert counting("echo", size=2) is counting("echo", size=2)


def test_leftovers_are_swept_before_the_first_server() -> None:
    before = Counting.swept
    counting("echo")
    counting("echo")
    assert Counting.swept == before + 1


def test_ensure_starts_a_server_once_and_again_after_it_ended() -> None:
    provider = counting("echo")
    first = provider.ensure(None)
    assert first == ("unix:/1", True)
    assert provider.ensure(None) == ("unix:/1", False)
    provider.running = False
    assert provider.ensure(None) == ("unix:/3", True)
    assert provider.calls == ["start", "stop", "start"]


def test_a_start_that_fails_leaves_nothing() -> None:
    provider = counting("echo")
    provider.fails = True
    with pytest.raises(StartupError):
        provider.ensure(None)
    assert provider.calls == ["start", "stop"]
    provider.fails = False
    assert provider.ensure(None)[1]


def test_threads_start_one_server_together() -> None:
    provider = counting("echo")
    threads = [threading.Thread(target=provider.ensure, args=(None,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert provider.calls == ["start"]


def test_at_exit_a_process_stops_its_own_servers_and_no_others() -> None:
    mine, other = counting("echo"), counting("other")
    other.owner = os.getpid() + 1
    base._stop_all()
    assert mine.calls == ["stop"]
    assert other.calls == []


def test_a_server_that_cannot_be_stopped_does_not_keep_the_others_running(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = counting("echo"), counting("other")

    def fail() -> None:
        raise RuntimeError("stuck")

    monkeypatch.setattr(first, "stop", fail)
    base._stop_all()
    assert second.calls == ["stop"]
    assert "stuck" in caplog.text


def test_a_forked_child_does_not_wait_for_a_lock_of_its_parent() -> None:
    provider = counting("echo")
    with provider._lock:
        provider.after_fork()
        assert provider.ensure(None)[1]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cloud", r"no provider 'cloud'; write 'process', 'inprocess', or 'package.module:ProviderClass'"),
        ("no_such_module:Provider", "cannot be imported"),
        (f"{__name__}:Missing", "cannot be imported"),
        (f"{__name__}:counting", "is no provider"),
        (f"{__name__}:threading", "is no provider"),
    ],
)
def test_what_is_no_provider_is_said_to_be_none(name: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        provider_class(name)


@pytest.mark.parametrize(
    ("options", "says"),
    [({"sizes": 1}, "provider_kwargs: .*sizes"), ({"size": object()}, "what JSON can hold")],
)
def test_wrong_options_are_named(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        counting("echo", **options)


def test_a_provider_needs_little() -> None:
    class Least(Counting):
        sweep = Provider.sweep

    least = Least("echo")
    assert (least.logs(), least.ending(), least.token, least.owner) == ("", "", None, os.getpid())
    least.forward()
    Least.sweep()


def test_sweep_is_there_for_users() -> None:
    sweep()


def test_several_servers_for_the_same_are_told_apart_by_number() -> None:
    first, second = (shared_provider(NAME, "echo", {}, number) for number in range(2))
    assert first is not second
    assert shared_provider(NAME, "echo", {}) is first


def test_launch_starts_a_server_that_ensure_waits_for() -> None:
    provider = counting("echo")
    provider.launch()
    provider.launch()
    assert provider.calls == ["start"]
    assert provider.ensure(1.0) == ("unix:/1", True)
    provider.launch()
    assert provider.ensure(1.0) == ("unix:/1", False)
    provider.running = False
    provider.launch()
    assert provider.calls == ["start", "stop", "start"]
    assert provider.ensure(1.0) == ("unix:/3", True)


def test_a_launch_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = counting("echo")

    def fail() -> str:
        raise StartupError("no")

    monkeypatch.setattr(provider, "start", fail)
    with pytest.raises(StartupError):
        provider.launch()
    assert provider.calls == ["stop"]
