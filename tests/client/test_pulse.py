"""Whether a silent peer still lives."""

from __future__ import annotations

from typing import Any

import pytest

from openenv_gym.client import pulse as module
from openenv_gym.client.pulse import Pulse


class Channel:
    """Counts pings."""

    def __init__(self) -> None:
        self.last_received = 0.0
        self.pings = 0

    def ping(self) -> None:
        self.pings += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    return now


def test_a_peer_is_asked_after_the_interval_and_gone_after_the_timeout(clock: list[float]) -> None:
    pulse, channel = Pulse((10.0, 5.0)), Channel()
    seen: list[Any] = []
    for clock[0] in (9.0, 10.5, 15.0, 15.6):
        seen.append((pulse.gone(channel), channel.pings))  # type: ignore[arg-type]
    assert seen == [(False, 0), (False, 1), (False, 1), (True, 1)]


def test_a_sign_of_life_begins_a_new_interval(clock: list[float]) -> None:
    pulse, channel = Pulse((10.0, 5.0)), Channel()
    clock[0] = 10.5
    assert not pulse.gone(channel)  # type: ignore[arg-type]
    channel.last_received = 11.0
    for clock[0], pings in ((20.0, 1), (21.5, 2), (22.0, 2)):
        assert not pulse.gone(channel)  # type: ignore[arg-type]
        assert channel.pings == pings


def test_without_keepalive_nobody_is_asked(clock: list[float]) -> None:
    pulse, channel = Pulse(None), Channel()
    clock[0] = 1e9
    assert not pulse.gone(channel)  # type: ignore[arg-type]
    assert channel.pings == 0


@pytest.mark.parametrize(
    ("keepalive", "span"), [(None, 1.0), ((20.0, 20.0), 1.0), ((0.2, 20.0), 0.1), ((20.0, 1.0), 0.5)]
)
def test_looks_are_as_frequent_as_the_shorter_time_needs(
    keepalive: tuple[float, float] | None, span: float
) -> None:
    assert Pulse(keepalive).span == span
