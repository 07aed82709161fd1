"""Pings are answered while a client is busy elsewhere."""

from __future__ import annotations

import gc
import os
import threading
import time

import pytest

from openenv_gym.client import attending
from openenv_gym.client.attending import attend_to
from tests.support.serverproc import eventually


class Link:
    """Counts how often it is attended to."""

    over = False
    attended = 0
    forgotten = False

    def attend(self) -> None:
        self.attended += 1

    def forget(self) -> None:
        self.forgotten = True


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attending, "_PERIOD", 0.002)


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "openenv-attendant"]


def test_one_thread_looks_at_all_links_until_they_are_over() -> None:
    assert eventually(lambda: not _threads())
    first, second = Link(), Link()
    attend_to(first)
    attend_to(second)
    assert eventually(lambda: first.attended > 2 and second.attended > 2)
    assert len(_threads()) == 1
    first.over = True
    seen = second.attended
    assert eventually(lambda: second.attended > seen + 2)
    second.over = True
    assert eventually(lambda: not _threads())
    third = Link()
    attend_to(third)
    assert eventually(lambda: third.attended > 0)
    third.over = True


def test_a_link_that_was_dropped_is_not_kept() -> None:
    links = [Link()]
    attend_to(links[0])
    assert eventually(lambda: links[0].attended > 0)
    links.clear()

    def gone() -> bool:
        gc.collect()
        return not any(isinstance(each, Link) for each in attending._attended)

    assert eventually(gone)
    assert eventually(lambda: not _threads())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_leaves_the_links_to_its_parent() -> None:
    link = Link()
    attend_to(link)
    child = os.fork()
    if child == 0:
        new = Link()
        attend_to(new)
        end = time.monotonic() + 60
        while not new.attended and time.monotonic() < end:
            time.sleep(0.005)
        os._exit(0 if link.forgotten and new.attended else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not link.forgotten
    link.over = True
