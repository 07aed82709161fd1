"""The calls of one client take turns."""

from __future__ import annotations

import threading
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any

import pytest

from openenv_gym.client.line import Call, Line, Reply, Work
from openenv_gym.errors import LocalProtocolError


class Link:
    """A connection that answers what it is told to."""

    span = 1.0
    due = None

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.collected = 0

    def connected(self) -> bool:
        return True

    def fileno(self) -> int:
        return -1

    def poll(self) -> bool:
        return True

    def collect(self, patience: float | None = None) -> Any:
        self.collected += 1
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def call_in(line: Line, flow: Generator[Any, Any, Any], name: str = "it") -> Call:
    call = Call(name, flow)
    line.add(call)
    return call


def saying(log: list[Any], what: Any, *intents: Any) -> Generator[Any, Any, Any]:
    log.append(what)
    got = []
    for intent in intents:
        got.append((yield intent))
    log.append((what, got))
    return what


def test_a_call_gets_what_it_waits_for_and_returns_its_result() -> None:
    line, log = Line(), []
    call = call_in(line, saying(log, "a", Work(lambda: 1), Reply(Link(2)), Work(lambda: 3)))
    assert line.run(call) == "a"
    assert log == ["a", ("a", [1, 2, 3])]
    assert line.run(call) == "a"


def test_calls_before_it_come_first() -> None:
    line, log = Line(), []
    first = call_in(line, saying(log, "first", Work(lambda: 1)))
    second = call_in(line, saying(log, "second"))
    third = call_in(line, saying(log, "third"))
    assert line.run(second) == "second"
    assert first.done
    assert not third.begun
    assert [entry for entry in log if isinstance(entry, str)] == ["first", "second"]


def test_an_error_goes_into_the_flow_and_out_of_the_call() -> None:
    def flow() -> Generator[Any, Any, Any]:
        try:
            yield Reply(Link(ValueError("no")))
        except ValueError as exc:
            yield Work(lambda: None)
            raise KeyError("instead") from exc

    line = Line()
    call = call_in(line, flow())
    for _ in range(2):
        with pytest.raises(KeyError, match="instead"):
            line.run(call)
    assert isinstance(call.error, KeyError)


def test_an_error_of_an_earlier_call_is_its_own() -> None:
    line, log = Line(), []
    first = call_in(line, saying(log, "first", Reply(Link(ValueError("no")))))
    assert line.run(call_in(line, saying(log, "second"))) == "second"
    with pytest.raises(ValueError, match="no"):
        line.run(first)


def test_an_interrupt_ends_the_call_that_is_under_way_and_is_raised() -> None:
    line, log = Line(), []
    first = call_in(line, saying(log, "first", Reply(Link(KeyboardInterrupt()))))
    second = call_in(line, saying(log, "second"))
    with pytest.raises(KeyboardInterrupt):
        line.run(second)
    assert first.done
    with pytest.raises(KeyboardInterrupt):
        line.run(second)
    assert log == ["first"]
    assert line.run(call_in(line, saying(log, "third"))) == "third"


def test_a_call_that_left_is_not_carried_out() -> None:
    line, log = Line(), []
    first = call_in(line, saying(log, "first"))
    line.leave(first)
    assert line.run(call_in(line, saying(log, "second"))) == "second"
    assert not first.begun


def test_threads_take_turns() -> None:
    line, inside, most, results = Line(), [0], [0], []

    def busy(number: int) -> Generator[Any, Any, Any]:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        yield Work(lambda: threading.Event().wait(0.001))
        inside[0] -= 1
        return number

    def body(number: int) -> None:
        for _ in range(20):
            results.append(line.run(call_in(line, busy(number))))

    threads = [threading.Thread(target=body, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert most == [1]
    assert sorted(results) == sorted(list(range(8)) * 20)


def test_a_thread_waits_for_another_ones_call() -> None:
    line, log = Line(), []
    entered, release = threading.Event(), threading.Event()

    def slow() -> Any:
        entered.set()
        return release.wait(10)

    first = call_in(line, saying(log, "first", Work(slow)))
    thread = threading.Thread(target=line.run, args=(first,))
    thread.start()
    assert entered.wait(10)
    second = call_in(line, saying(log, "second"))
    assert line.claim(second, blocks=True) is None
    release.set()
    assert line.run(second) == "second"
    thread.join(10)
    assert log == ["first", ("first", [True]), "second", ("second", [])]


def test_a_signal_handler_gets_an_error_instead_of_a_deadlock() -> None:
    line, log = Line(), []

    def handler() -> None:
        line.run(call_in(line, saying(log, "inner")))

    outer = call_in(line, saying(log, "outer", Work(handler)), "step()")
    with pytest.raises(LocalProtocolError, match=r"step\(\) is under way; a signal handler"):
        line.run(outer)
    assert line.run(call_in(line, saying(log, "later"))) == "later"
    assert "inner" not in log


def test_a_blocking_driver_takes_over_from_a_task_of_its_thread() -> None:
    line, log, link = Line(), [], Link("reply")
    first = call_in(line, saying(log, "first", Reply(link)))
    assert line.claim(first, blocks=False) is first
    first.advance()
    woken: list[int] = []
    second = call_in(line, saying(log, "second"))
    assert line.claim(second, blocks=False, waker=lambda: woken.append(1)) is None
    assert line.run(second) == "second"
    assert first.outcome() == "first"
    assert (link.collected, woken) == (1, [1])


def test_a_blocking_driver_waits_for_what_runs_in_a_thread() -> None:
    line, log = Line(), []
    call = call_in(line, saying(log, "a", Work(lambda: pytest.fail("ran twice"))))
    call.advance()
    call.running = Future()
    threading.Timer(0.02, call.running.set_result, ["there"]).start()
    assert line.run(call) == "a"
    assert log[-1] == ("a", ["there"])


def test_a_claim_for_a_call_that_is_done_is_the_call() -> None:
    line, log = Line(), []
    call = call_in(line, saying(log, "a"))
    line.run(call)
    assert line.claim(call, blocks=False) is call


def test_a_call_that_was_let_go_of_is_gone_on_with() -> None:
    line, log = Line(), []
    call = call_in(line, saying(log, "a", Reply(Link(7))))
    assert line.claim(call, blocks=False) is call
    call.advance()
    line.release(call)
    assert line.run(call) == "a"
    assert log == ["a", ("a", [7])]
