from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from openenv_gym.errors import ConfigError
from openenv_gym.protocol.reader import FrameReader
from openenv_gym.transport import polling
from openenv_gym.transport.polling import Poller, cpu_quota


class Script:
    """A clock, a yield that takes time on it, and tries that go as the script says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.yield_takes = 1e-6
        self.first_yields: list[float] = []
        self.yields = 0
        self.comes_after = 0
        self.size = 5
        monkeypatch.setattr(polling, "monotonic", lambda: self.now)
        monkeypatch.setattr(os, "sched_yield", self._yield)

    def _yield(self) -> None:
        self.now += self.first_yields.pop(0) if self.first_yields else self.yield_takes
        self.yields += 1

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if self.yields <= self.comes_after:
            raise BlockingIOError
        return self.size

    def receive(self, poller: Poller, comes_after: int) -> int:
        self.yields, self.comes_after = 0, comes_after
        return poller.receive(FrameReader(client=True))


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    return Script(monkeypatch)


NEVER = 1 << 30


def test_yields_before_each_try_and_notes_what_came(script: Script) -> None:
    reader = FrameReader(client=True)
    script.comes_after = 3
    assert Poller(iter(script)).receive(reader) == 5
    assert reader.arrived == 5
    assert script.yields == 4


def test_gives_up_after_120_microseconds(script: Script) -> None:
    assert script.receive(Poller(iter(script)), NEVER) == -1
    assert 119 <= script.yields <= 122


def test_gives_up_when_a_yield_takes_more_than_20_microseconds(script: Script) -> None:
    script.yield_takes = 21e-6
    assert script.receive(Poller(iter(script)), NEVER) == -1
    assert script.yields == 1


def test_a_reply_that_came_during_a_long_yield_is_a_miss_too(script: Script) -> None:
    script.yield_takes = 21e-6
    poller = Poller(iter(script))
    for _ in range(3):
        assert script.receive(poller, 0) == -1
        assert script.yields == 1
    assert script.receive(poller, 0) == -1
    assert script.yields == 0


@pytest.mark.parametrize(("lost", "pause"), [(300e-6, 150), (3e-3, 1500)])
def test_after_a_dear_miss_it_blocks_at_once_and_for_as_long_as_that_pays(
    script: Script, lost: float, pause: int
) -> None:
    script.yield_takes = lost
    poller = Poller(iter(script))
    assert script.receive(poller, 0) == -1
    paused = 0
    while script.receive(poller, 0) == -1 and not script.yields:
        paused += 1
    assert paused == pytest.approx(pause, abs=1)


def test_credit_of_eight_pays_for_two_misses_and_then_64_receives_block(script: Script) -> None:
    poller = Poller(iter(script))
    for _ in range(20):
        assert script.receive(poller, 0) == 5
    for _ in range(3):
        assert script.receive(poller, NEVER) == -1
        assert script.yields
    for _ in range(64):
        assert script.receive(poller, 0) == -1
        assert not script.yields
    assert script.receive(poller, 0) == 5
    for _ in range(5):
        assert script.receive(poller, 0) == 5
    for _ in range(3):
        assert script.receive(poller, NEVER) == -1
        assert script.yields, "6 hits pay for two misses and the one that ends it"
    assert script.receive(poller, 0) == -1


def learned(script: Script, took: float) -> Poller:
    """Return a poller that missed once what came after ``took`` seconds."""
    poller = Poller(iter(script))
    begun = script.now
    assert script.receive(poller, NEVER) == -1
    script.now = begun + took
    poller.learn()
    return poller


def test_tries_twice_as_long_as_what_it_missed_took(script: Script) -> None:
    poller = learned(script, 400e-6)
    assert script.receive(poller, 700) == 5
    poller = learned(script, 400e-6)
    assert script.receive(poller, NEVER) == -1
    assert 799 <= script.yields <= 802


@pytest.mark.parametrize("took", [700e-6, 990e-6])
def test_tries_for_a_millisecond_at_most(script: Script, took: float) -> None:
    assert script.receive(learned(script, took), NEVER) == -1
    assert 999 <= script.yields <= 1002


def test_learns_nothing_from_what_took_longer(script: Script) -> None:
    assert script.receive(learned(script, 1.001e-3), NEVER) == -1
    assert 119 <= script.yields <= 122


def test_learns_of_each_miss_once_and_of_no_receive_that_it_did_not_try(script: Script) -> None:
    poller = learned(script, 50e-3)
    script.now += 300e-6
    poller.learn()
    assert script.receive(poller, NEVER) == -1
    assert 119 <= script.yields <= 122


def test_forgets_when_what_it_waits_for_comes_sooner(script: Script) -> None:
    poller = learned(script, 400e-6)
    for _ in range(50):
        assert script.receive(poller, 10) == 5
    assert script.receive(poller, NEVER) == -1
    assert 119 <= script.yields <= 122


@pytest.mark.parametrize(
    ("patient", "bearable", "too_long"), [(False, 99e-6, 101e-6), (True, 0.9e-3, 1.1e-3)]
)
def test_two_yields_may_take_an_eighth_of_a_long_wait_or_for_the_patient_a_millisecond(
    script: Script, patient: bool, bearable: float, too_long: float
) -> None:
    pollers = [Poller(iter(script)) if patient else learned(script, 400e-6) for _ in range(3)]
    for poller in pollers:
        poller.patient = patient
    script.yield_takes = bearable
    assert script.receive(pollers[0], 1) == 5
    assert script.receive(pollers[1], 2) == -1
    assert script.yields == 3
    script.yield_takes = too_long
    assert script.receive(pollers[2], 0) == -1
    assert script.yields == 1


def test_short_waits_allow_none(script: Script) -> None:
    poller = learned(script, 119e-6)
    script.yield_takes = 21e-6
    assert script.receive(poller, 0) == -1
    assert script.yields == 1


def test_one_dear_miss_among_long_receives_that_went_well_costs_little(script: Script) -> None:
    poller, pauses = learned(script, 400e-6), []
    for _ in range(20):
        assert script.receive(poller, 350) == 5
    script.yield_takes = 8e-3
    for _ in range(2):
        assert script.receive(poller, 0) == -1
        paused = 0
        while script.receive(poller, 0) == -1 and not script.yields:
            paused += 1
        pauses.append(paused)
    assert pauses[0] == 1
    assert pauses[1] > 500


def test_what_others_took_of_the_core_is_not_counted_as_waiting(script: Script) -> None:
    poller = Poller(iter(script))
    poller.patient = True
    script.first_yields = [0.9e-3, 0.8e-3]
    assert script.receive(poller, NEVER) == -1
    assert 121 <= script.yields <= 124


def test_after_a_dear_miss_long_receives_block_for_fewer_times(script: Script) -> None:
    poller = learned(script, 400e-6)
    script.yield_takes = 4e-3
    assert script.receive(poller, 0) == -1
    paused = 0
    while script.receive(poller, 0) == -1 and not script.yields:
        paused += 1
    assert paused == pytest.approx(4e-3 / (2e-6 * 800 / 120), abs=1)


def follow(script: Script, poller: Poller, comes_after: int) -> int:
    script.yields, script.comes_after = 0, comes_after
    return poller.follow(FrameReader(client=True), iter(script))


def test_the_rest_of_a_message_is_tried_for_before_the_core_is_yielded(script: Script) -> None:
    poller = Poller(iter(script))
    assert follow(script, poller, -1) == 5
    assert script.yields == 0
    assert follow(script, poller, 3) == 5
    assert script.yields == 4


def test_the_rest_of_a_message_is_not_waited_for_long(script: Script) -> None:
    poller = Poller(iter(script))
    assert follow(script, poller, NEVER) == -1
    assert 119 <= script.yields <= 122
    script.yield_takes = 21e-6
    assert follow(script, poller, 1) == -1
    assert script.yields == 1


def test_while_polling_does_not_pay_the_rest_of_a_message_is_not_tried_for(script: Script) -> None:
    script.yield_takes = 1e-3
    poller = Poller(iter(script))
    assert script.receive(poller, 0) == -1
    assert follow(script, poller, -1) == -1


def test_the_end_of_the_connection_is_passed_on(script: Script) -> None:
    script.size = 0
    assert script.receive(Poller(iter(script)), 0) == 0


def test_other_errors_are_passed_on(script: Script) -> None:
    def broken(_: int) -> int:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        Poller(map(broken, [1])).receive(FrameReader(client=True))


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "_own_quota", lambda: float("inf"))


@pytest.mark.usefixtures("unlimited")
def test_polling_is_worthwhile_here_unless_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert polling.worthwhile()
    monkeypatch.setenv("OPENENV_POLL", "1")
    assert polling.worthwhile()
    monkeypatch.setenv("OPENENV_POLL", "0")
    assert not polling.worthwhile()
    monkeypatch.setenv("OPENENV_POLL", "yes")
    with pytest.raises(ConfigError, match=r"OPENENV_POLL must be 0 .* not 'yes'"):
        polling.worthwhile()


@pytest.mark.usefixtures("unlimited")
@pytest.mark.parametrize(("module", "name"), [(os, "sched_yield"), (socket, "MSG_DONTWAIT")])
def test_polling_needs_what_it_is_made_of(module: object, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(module, name)
    assert not polling.worthwhile()


@pytest.mark.usefixtures("unlimited")
def test_polling_is_for_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not polling.worthwhile()


def test_polling_is_off_under_a_quota_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "_own_quota", lambda: 0.5)
    assert not polling.worthwhile()


def test_the_quota_of_this_process_is_read_once() -> None:
    assert polling._own_quota() > 0
    before = polling._own_quota.cache_info()
    assert polling._own_quota() > 0
    after = polling._own_quota.cache_info()
    assert (after.misses, after.hits) == (before.misses, before.hits + 1)


def groups(tmp_path: Path, membership: str, files: dict[str, str]) -> float:
    (tmp_path / "membership").write_text(membership)
    for name, text in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return cpu_quota(tmp_path / "mount", tmp_path / "membership")


@pytest.mark.parametrize(
    ("membership", "files", "quota"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n"}, float("inf")),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "50000 100000\n"}, 0.5),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/host/path\n", {"cpu.max": "25000 100000\n"}, 0.25),
        ("1:name=systemd:/\n0::/x\n", {"unified/x/cpu.max": "70000 100000\n"}, 0.7),
        (
            "4:cpu,cpuacct:/d\n",
            {"cpu,cpuacct/d/cpu.cfs_quota_us": "80000\n", "cpu,cpuacct/d/cpu.cfs_period_us": "100000\n"},
            0.8,
        ),
        (
            "4:cpu:/d\n2:cpuset:/d\n",
            {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
            float("inf"),
        ),
        ("", {}, float("inf")),
    ],
)
def test_quota_is_the_least_of_the_groups(
    tmp_path: Path, membership: str, files: dict[str, str], quota: float
) -> None:
    assert groups(tmp_path, membership, files) == quota


def test_no_groups_means_no_quota(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path, tmp_path / "missing") == float("inf")
