"""Lanes are started and collected as they finish, each on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from openenv_gym.errors import RemoteProtocolError
from openenv_gym.protocol import messages as m

from .laneenvs import GATES, PLACES
from .lanescene import Client, opened

_GATED = "tests.servers.laneenvs:GatedEnv"
_PLACE = "tests.servers.laneenvs:PlaceEnv"


@pytest.fixture
def make() -> Iterator[Callable[..., Client]]:
    made: list[Client] = []

    def build(target: str, **fields: Any) -> Client:
        made.append(opened(target, **fields))
        return made[-1]

    yield build
    for gate in GATES.values():
        gate.set()
    for client in made:
        client.close()
    GATES.clear()


def _gated(make: Any, shut: int, lanes: int = 4, **fields: Any) -> Client:
    """Return a client of lanes of which the first ``shut`` wait at gates of their own."""
    for lane in range(shut):
        GATES[str(lane)] = threading.Event()
    each = [{"gate": str(lane)} if lane < shut else {} for lane in range(lanes)]
    client: Client = make(_GATED, threads=lanes, lanes=lanes, env_kwargs=each, **fields)
    client.reset()
    return client


def _everyone(client: Client, action: int = 0) -> dict[int, int]:
    return dict.fromkeys(range(client.num_envs), action)


def test_the_reply_does_not_wait_for_more_lanes_than_it_has_to(make: Any) -> None:
    client = _gated(make, shut=1)
    reply, lanes = client.start(_everyone(client), wait=3)
    assert sorted(lanes) == [1, 2, 3]
    assert [int(value) for value in client.observations(reply)] == [1, 1, 1]
    for _ in range(3):
        _, lanes = client.start({1: 0, 2: 0, 3: 0}, wait=3)
        assert sorted(lanes) == [1, 2, 3]
    GATES["0"].set()
    reply, lanes = client.start({}, wait=1)
    assert (lanes, [int(value) for value in client.observations(reply)]) == ([0], [1])


def test_every_lane_is_collected_once_and_in_order_when_all_are_waited_for(make: Any) -> None:
    client = _gated(make, shut=2)
    _, early = client.start(_everyone(client), wait=2)
    GATES["1"].set()
    GATES["0"].set()
    _, late = client.start({lane: 0 for lane in early})
    assert (sorted(early), late) == ([2, 3], [0, 1, 2, 3])
    assert client.last.lanes is None
    assert client.start({})[1] == []


def test_a_step_can_be_started_without_waiting_and_asked_after_later(make: Any) -> None:
    client = _gated(make, shut=4)
    reply, lanes = client.start(_everyone(client), wait=0)
    assert (lanes, reply.observations, reply.rewards, reply.flags) == ([], None, b"", b"")
    assert client.start({}, wait=4, patience=0.01)[1] == []
    for gate in GATES.values():
        gate.set()
    assert client.start({})[1] == [0, 1, 2, 3]


@pytest.mark.parametrize("wait", [0, 1])
def test_lanes_that_are_out_are_not_stepped_again(make: Any, wait: int) -> None:
    client = _gated(make, shut=2)
    if wait:
        GATES["1"].set()
    client.start({0: 0, 1: 0}, wait=wait)
    with pytest.raises(RemoteProtocolError, match=r"not collected since the last one: \[0\]"):
        client.start({0: 0, 2: 0})
    with pytest.raises(RemoteProtocolError, match="not collected"):
        client.step(np.zeros(4, np.int64))
    for gate in GATES.values():
        gate.set()
    assert client.start({})[1] == ([0] if wait else [0, 1])


def test_other_calls_wait_for_the_steps_and_lose_no_result(make: Any) -> None:
    client = _gated(make, shut=4)
    client.start(_everyone(client), wait=0)
    opener = threading.Timer(0.05, lambda: [gate.set() for gate in GATES.values()])
    opener.start()
    assert client.ask(m.Get, "count").values == [1, 1, 1, 1]
    opener.join()
    reply, lanes = client.start({}, wait=1)
    assert sorted(lanes) == [0, 1, 2, 3]
    assert [int(value) for value in client.observations(reply)] == [1, 1, 1, 1]


def test_a_reset_waits_for_its_lanes_only_and_drops_their_results(make: Any) -> None:
    client = _gated(make, shut=4)
    client.start(_everyone(client), wait=0)
    for lane in "123":
        GATES[lane].set()
    reply = client.ask(m.Reset, None, None, b"\0\1\1\0")
    assert client.lanes_of(reply) == [1, 2]
    assert sorted(client.start({1: 0, 2: 0}, wait=3)[1]) == [1, 2, 3]
    GATES["0"].set()
    reply, lanes = client.start({})
    assert (lanes, int(client.observations(reply)[0])) == ([0], 1)


def test_on_one_thread_lanes_take_turns_and_none_starves(make: Any) -> None:
    client = make(_GATED, threads=1, lanes=4)
    client.reset()
    order = client.start(_everyone(client), wait=2)[1]
    for _ in range(6):
        order += client.start({lane: 0 for lane in order[-2:]}, wait=2)[1]
    assert order == [0, 1, 2, 3] * 3 + [0, 1]


def test_on_one_thread_patience_costs_no_lane_its_turn(make: Any) -> None:
    client = make(_GATED, threads=1, lanes=3)
    client.reset()
    lanes = client.start(_everyone(client), wait=3, patience=0.0)[1]
    assert lanes == [0]
    assert client.start({}, patience=0.0)[1] == [1]
    assert client.start({}, wait=0)[1] == []
    assert client.ask(m.Get, "count").values == [1, 1, 1]
    assert client.start({})[1] == [2]


def test_a_failed_lane_counts_as_finished(make: Any) -> None:
    client = _gated(make, shut=1)
    reply, lanes = client.start({0: 0, 1: 8}, wait=1)
    assert (lanes, [failure.lane for failure in reply.failed]) == ([], [1])
    GATES["0"].set()
    assert client.start({})[1] == [0]


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_a_lane_is_on_one_thread_from_its_construction_to_its_end(make: Any, threads: int, mode: str) -> None:
    PLACES.clear()
    each = [{"name": lane} for lane in range(4)]
    client = make(_PLACE, threads=threads, lanes=4, env_kwargs=each, autoreset=mode)
    client.reset()
    for _ in range(4):
        client.step(np.zeros(4, np.int64))
    client.ask(m.Render)
    client.ask(m.Call, "mark")
    client.close()
    where = {lane: {thread for name, _, thread in PLACES if name == lane} for lane in range(4)}
    calls = {call for _, call, _ in PLACES}
    assert calls == {"init", "reset", "step", "render", "mark", "close"}
    assert [len(found) for found in where.values()] == [1] * 4
    assert len(set.union(*where.values())) == threads
    here = {threading.get_ident()}
    assert (set.union(*where.values()) == here) == (threads == 1)
