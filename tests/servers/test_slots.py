"""Slots are taken before anything is built, handed over in order, and given back on every path."""

from __future__ import annotations

import asyncio

import pytest

from openenv_gym.errors import CapacityError, ServerDrainingError
from openenv_gym.servers.slots import Slots


def _slots(maximum: int) -> tuple[Slots, list[int]]:
    asked: list[int] = []
    return Slots(maximum, asked.append), asked


def test_a_full_server_refuses_at_once_and_names_both_numbers() -> None:
    async def main() -> None:
        slots, _ = _slots(2)
        await slots.take(2, 0.0, room_expected=False)
        with pytest.raises(CapacityError, match="2/2") as caught:
            await slots.take(1, 0.0, room_expected=False)
        assert caught.value.details == {"active": 2, "max": 2, "option": "max_sessions"}

    asyncio.run(main())


def test_who_waits_gets_the_slot_that_comes_free_first_come_first_served() -> None:
    async def main() -> None:
        slots, asked = _slots(1)
        await slots.take(1, 0.0, room_expected=False)
        order: list[str] = []

        async def wait(name: str) -> None:
            await slots.take(1, 30.0, room_expected=False)
            order.append(name)

        tasks = []
        for name in "abc":
            tasks.append(asyncio.create_task(wait(name)))
            await asyncio.sleep(0)
        assert slots.waiting == 3
        assert asked == [1, 2, 3]
        for expected in ("a", "b", "c"):
            slots.give(1)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert order[-1] == expected
            assert slots.active == 1
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_a_wait_that_times_out_or_is_cancelled_leaves_no_trace() -> None:
    async def main() -> None:
        slots, _ = _slots(1)
        await slots.take(1, 0.0, room_expected=False)
        with pytest.raises(CapacityError):
            await slots.take(1, 0.01, room_expected=False)
        task = asyncio.create_task(slots.take(1, 30.0, room_expected=False))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert slots.waiting == 0
        slots.give(1)
        assert slots.active == 0

    asyncio.run(main())


def test_a_slot_handed_over_at_the_moment_of_cancelling_is_given_back() -> None:
    async def main() -> None:
        slots, _ = _slots(1)
        await slots.take(1, 0.0, room_expected=False)
        task = asyncio.create_task(slots.take(1, 30.0, room_expected=False))
        await asyncio.sleep(0)
        slots.give(1)  # handed over now, but the task has not run yet
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert slots.active == 0

    asyncio.run(main())


def test_more_slots_than_there_are_is_an_error_whatever_the_patience() -> None:
    async def main() -> None:
        slots, _ = _slots(3)
        with pytest.raises(CapacityError, match="4 more were asked for"):
            await slots.take(4, 30.0, room_expected=True)

    asyncio.run(main())


def test_a_draining_server_sends_those_away_who_wait() -> None:
    async def main() -> None:
        slots, _ = _slots(1)
        await slots.take(1, 0.0, room_expected=False)
        task = asyncio.create_task(slots.take(1, 30.0, room_expected=False))
        await asyncio.sleep(0)
        slots.refuse_all()
        with pytest.raises(ServerDrainingError):
            await task
        assert slots.waiting == 0

    asyncio.run(main())
