from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from openenv_gym.errors import (
    InvalidActionError,
    RemoteProtocolError,
    SessionLostError,
    VectorEnvError,
    WorkerCrashedError,
)
from openenv_gym.protocol.columns import column_codec
from openenv_gym.protocol.messages import Observation, Reset, Step, Transition
from openenv_gym.wrappers.vector import stepper as module
from openenv_gym.wrappers.vector.recovery import Recovery
from openenv_gym.wrappers.vector.stepper import Stepper

SPACE = spaces.Box(0, 1000, (), np.int64)
ACTIONS = spaces.Discrete(10)
CODEC = column_codec(SPACE)
DO = column_codec(ACTIONS, actions=True)


class FakePart:
    """Counts for its lanes and writes down what it is asked."""

    def __init__(self, log: list[str], first: int, count: int) -> None:
        self.log, self.first, self.count, self.stop = log, first, count, first + count
        self.connection: Any = object()
        self.losses = 0
        self.cause: BaseException | None = None
        self.server = f"ws://{first}"
        self.counts = [0] * count
        self.pending: Any = None
        self.late = 0
        self.fails: list[BaseException] = []
        self.spoils = False

    @property
    def lanes(self) -> range:
        return range(self.first, self.stop)

    def check(self) -> None:
        pass

    def stepped(self) -> None:
        pass

    def lose(self, cause: BaseException) -> None:
        self.connection, self.cause = None, cause
        self.losses += 1

    def post(self, kind: type, *args: Any) -> None:
        if self.connection is None:
            raise SessionLostError("it is lost", server=self.server)
        self.log.append(f"post {kind.__name__} {self.first}")
        self.pending = kind(1, *args)

    def collect(self, patience: float | None = None) -> Any:
        if patience is not None and self.late:
            self.late -= 1
            raise TimeoutError
        self.log.append(f"collect {self.first}")
        if self.fails:
            exc = self.fails.pop()
            if isinstance(exc, SessionLostError):
                self.lose(exc)
            raise exc
        return self._answer(self.pending)

    def _answer(self, request: Any) -> Any:
        lanes = list(range(self.count))
        named = None
        if isinstance(request, Reset) and request.mask is not None:
            lanes = [lane for lane in lanes if request.mask[lane]]
            named = np.array(lanes, "<u4").tobytes()
        if isinstance(request, Step) and request.lanes is not None:
            lanes, named = np.frombuffer(request.lanes, "<u4").tolist(), request.lanes
        for lane in lanes:
            self.counts[lane] = 0 if isinstance(request, Reset) else self.counts[lane] + 1
        values = [np.array(self.counts[lane]) for lane in lanes]
        if isinstance(request, Reset):
            return Observation(1, CODEC.encode(values), None, named)
        flags = b"\0" if self.spoils else bytes(len(lanes))
        rewards = struct.pack(f"<{len(lanes)}d", *map(float, values))
        return Transition(1, CODEC.encode(values), rewards, flags, None, named)


class FakeFleet:
    crowded = False

    def __init__(self, *counts: int) -> None:
        self.log: list[str] = []
        firsts = np.cumsum([0, *counts])[:-1].tolist()
        self.parts = [FakePart(self.log, first, count) for first, count in zip(firsts, counts, strict=True)]

    def begin(self, parts: list[FakePart]) -> dict[int, Any]:
        self.log += [f"open {part.first}" for part in parts]
        for part in parts:
            part.connection = object()
        return {}

    def complete(self, parts: Any) -> dict[int, Any]:
        self.log += [f"opened {part.first}" for part in parts]
        return {}


def stepper(fleet: Any, **options: Any) -> Stepper:
    mode = options.pop("mode", AutoresetMode.NEXT_STEP)
    recovery = Recovery(truncates=options.pop("truncates", False), mode=mode, most=2)
    manual = mode is AutoresetMode.DISABLED
    return Stepper(
        fleet, (SPACE, ACTIONS), recovery, **{"copy": True, "manual": manual, "native": False, **options}
    )


def reset(found: Stepper, mask: Any = None) -> Any:
    found.post_reset(None, None, mask)
    return found.collect_reset(None)


def step(found: Stepper, patience: float | None = None) -> Any:
    found.post_step(np.zeros(4, np.int64))
    return found.collect_step(patience)


class Clock:
    """Goes on when a part is collected, by as much as that takes."""

    def __init__(self, fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.takes = {part.first: 0.0 for part in fleet.parts}
        monkeypatch.setattr(module, "monotonic", lambda: self.now)
        for part in fleet.parts:
            part.collect = self.timed(part.first, part.collect)  # type: ignore[method-assign]

    def timed(self, first: int, collect: Any) -> Any:
        def timed(patience: float | None) -> Any:
            self.now += self.takes[first]
            return collect(patience)

        return timed


@pytest.mark.parametrize("crowded", [True, False])
def test_who_shares_its_core_waits_first_for_the_one_that_was_late(
    crowded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = FakeFleet(2, 1, 1)
    fleet.crowded = crowded
    found, clock, orders = stepper(fleet), Clock(fleet, monkeypatch), []
    reset(found)
    for takes in ([80, 10, 10], [80, 1, 11], [1, 1, 90], [11, 1, 80], [80, 9, 9]):
        clock.takes = dict(zip([0, 2, 3], map(float, takes), strict=True))
        fleet.log.clear()
        observations, *_ = step(found)
        orders.append([int(line.split()[1]) for line in fleet.log if line.startswith("collect")])
    assert observations.tolist() == [len(orders)] * 4
    if crowded:
        assert orders == [[0, 2, 3], [0, 2, 3], [3, 0, 2], [3, 0, 2], [0, 2, 3]]
    else:
        assert orders == [[0, 2, 3]] * 5


def test_all_sessions_get_their_frame_before_the_first_reply_is_awaited() -> None:
    fleet = FakeFleet(2, 1, 1)
    found = stepper(fleet)
    assert found.unready.all()
    assert reset(found)[0].tolist() == [0, 0, 0, 0]
    assert not found.unready.any()
    fleet.log.clear()
    assert step(found)[0].tolist() == [1, 1, 1, 1]
    assert fleet.log == [f"post Step {first}" for first in (0, 2, 3)] + [
        f"collect {first}" for first in (0, 2, 3)
    ]


def test_a_reset_asks_the_masked_lanes_alone() -> None:
    fleet = FakeFleet(2, 2)
    found = stepper(fleet)
    reset(found)
    step(found)
    fleet.log.clear()
    observations = reset(found, np.array([False, False, False, True]))[0]
    assert observations.tolist() == [1, 1, 1, 0]
    assert fleet.log == ["post Reset 2", "collect 2"]


def test_who_runs_out_of_patience_goes_on_where_it_was() -> None:
    fleet = FakeFleet(2, 2)
    found = stepper(fleet)
    reset(found)
    fleet.parts[1].late = 2
    found.post_step(np.zeros(4, np.int64))
    for _ in range(2):
        with pytest.raises(TimeoutError):
            found.collect_step(0.0)
    assert found.collect_step(0.0)[0].tolist() == [1, 1, 1, 1]


def test_seeds_go_to_their_lanes() -> None:
    fleet = FakeFleet(1, 3)
    found = stepper(fleet)
    found.post_reset(range(5, 9), {"a": 1}, None)
    assert [(part.pending.seeds, part.pending.options) for part in fleet.parts] == [
        ([5], {"a": 1}),
        ([6, 7, 8], {"a": 1}),
    ]
    native = stepper(fleet, native=True)
    native.post_reset(range(5, 9), None, None)
    assert [part.pending.seeds for part in fleet.parts] == [[5], [6]]
    native.post_reset([5, 6, None, 8], None, None)
    assert [part.pending.seeds for part in fleet.parts] == [[[5]], [[6, None, 8]]]
    native.post_reset(None, None, None)
    assert [part.pending.seeds for part in fleet.parts] == [None, None]


@pytest.mark.parametrize("counts", [(4,), (2, 2)])
@pytest.mark.parametrize("actions", [np.zeros(3, np.int64), np.full(4, 77), 5, None, {"a": 1}])
def test_what_is_no_batch_of_actions_is_sent_to_nobody(counts: tuple[int, ...], actions: Any) -> None:
    fleet = FakeFleet(*counts)
    found = stepper(fleet)
    reset(found)
    fleet.log.clear()
    with pytest.raises(InvalidActionError):
        found.post_step(actions)
    assert fleet.log == []


def test_a_reply_that_does_not_fit_loses_its_session() -> None:
    fleet = FakeFleet(2, 2)
    found = stepper(fleet)
    reset(found)
    fleet.parts[1].spoils = True
    with pytest.raises(VectorEnvError, match="lanes 2, 3 of 4 failed") as caught:
        step(found)
    assert isinstance(caught.value.errors[2], RemoteProtocolError)
    assert fleet.parts[1].connection is None
    assert found.unready.tolist() == [False, False, True, True]


def test_a_lost_session_is_opened_again_when_its_lanes_are_due() -> None:
    fleet = FakeFleet(2, 2)
    found = stepper(fleet, truncates=True)
    reset(found)
    fleet.parts[0].fails.append(SessionLostError("gone"))
    assert step(found)[3].tolist() == [True, True, False, False]
    assert found.revive.tolist() == [True, True, False, False]
    fleet.log.clear()
    assert step(found)[0].tolist() == [0, 0, 2, 2]
    assert fleet.log == ["post Step 2", "collect 2", "open 0", "opened 0", "post Reset 0", "collect 0"]
    assert step(found)[0].tolist() == [1, 1, 3, 3]
    assert not found.revive.any()


def test_a_session_that_is_lost_in_the_reset_is_tried_again_at_once() -> None:
    fleet = FakeFleet(2, 2)
    found = stepper(fleet, truncates=True)
    fleet.parts[1].fails.append(SessionLostError("gone"))
    assert reset(found)[0].tolist() == [0, 0, 0, 0]
    assert fleet.log.count("post Reset 2") == 2


def test_the_buffer_is_used_again_without_copies() -> None:
    found = stepper(FakeFleet(2, 2), copy=False)
    first = reset(found)[0]
    assert step(found)[0] is first
    assert stepper(FakeFleet(4)).blank().batch is not first


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_session_lost_when_some_lanes_begin_leaves_the_others_their_results(
    mode: AutoresetMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = FakeFleet(2, 2)
    found = stepper(fleet, truncates=True, mode=mode)
    reset(found)
    part = fleet.parts[0]
    post, fails = part.post, [SessionLostError("gone")]

    def failing(kind: type, *args: Any) -> None:
        post(kind, *args)
        if kind is Reset and fails:
            part.fails.append(fails.pop())

    monkeypatch.setattr(part, "post", failing)
    # Lane 0 lost its episode in a session before this one.
    (found.revive if mode is AutoresetMode.NEXT_STEP else found.untold)[0] = True
    observations, rewards, terminated, truncated, _ = step(found)
    assert (observations.tolist(), rewards.tolist()) == ([0, 1, 1, 1], [0.0, 1.0, 1.0, 1.0])
    assert not terminated.any() and truncated.tolist() == [True, False, False, False]
    assert found.untold.tolist() == [False, True, False, False]
    _, rewards, _, truncated, _ = step(found)
    assert truncated.tolist() == [False, True, False, False]
    assert rewards.tolist()[1:] == [0.0, 2.0, 2.0]
    assert not found.untold.any()


def test_lanes_outside_the_mask_that_were_lost_are_told_when_the_others_were_reset() -> None:
    fleet = FakeFleet(2, 2)
    found = stepper(fleet)
    reset(found)
    step(found)
    fleet.parts[0].lose(WorkerCrashedError("killed", exit_code=-9))
    with pytest.raises(VectorEnvError, match="lane 0 of 4 failed.*\n.*killed") as caught:
        reset(found, np.array([False, True, True, False]))
    assert (caught.value.lanes, caught.value.details["exit_code"]) == ((0,), -9)
    assert caught.value.partial[0].tolist() == [1, 0, 0, 1]
    assert found.unready.tolist() == [True, False, False, False]
    assert reset(found, caught.value.mask)[0].tolist() == [0, 0, 0, 1]
    assert step(found)[0].tolist() == [1, 1, 1, 2]
