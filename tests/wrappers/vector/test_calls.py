"""One call at a time, and only a reset after one that was interrupted."""

from __future__ import annotations

from multiprocessing import TimeoutError as WaitTimeout
from time import monotonic
from typing import Any

import numpy as np
import pytest
from gymnasium.error import AlreadyPendingCallError

from openenv_gym.errors import InterruptedStepError, SessionLostError
from openenv_gym.wrappers.vector.calls import Calls, wait


class Scene:
    """Calls, and how often something was given up."""

    def __init__(self) -> None:
        self.given_up: list[str] = []
        self.calls = Calls(lambda: self.given_up.append("steps"), lambda: self.given_up.append("batches"))


def raising(exc: BaseException) -> Any:
    def work(*_: Any) -> Any:
        raise exc

    return work


def test_what_work_returns_is_returned() -> None:
    scene = Scene()
    assert scene.calls.run("step", lambda a, b: a + b, 3, 4) == 7
    scene.calls.check("step")
    scene.calls.check_known()
    assert scene.given_up == []


@pytest.mark.parametrize("exc", [SessionLostError("gone"), WaitTimeout("late")])
def test_an_error_of_the_servers_is_an_answer(exc: Exception) -> None:
    scene = Scene()
    with pytest.raises(type(exc)):
        scene.calls.run("step", raising(exc))
    scene.calls.check("step")
    scene.calls.check_known()


@pytest.mark.parametrize("exc", [KeyboardInterrupt(), TimeoutError("an alarm"), UserWarning("as an error")])
def test_whatever_else_is_raised_leaves_the_result_unknown(exc: BaseException) -> None:
    scene = Scene()
    with pytest.raises(type(exc)):
        scene.calls.run("step", raising(exc))
    scene.calls.check("step")
    with pytest.raises(InterruptedStepError, match=r"call reset\(\)"):
        scene.calls.check_known()
    assert scene.given_up == ["steps", "batches"]


def test_what_an_interrupt_kept_from_being_given_up_is_given_up_before_a_reset() -> None:
    given_up: list[str] = []

    def give_up() -> None:
        given_up.append("tried")
        if len(given_up) == 1:
            raise KeyboardInterrupt

    calls = Calls(give_up)
    with pytest.raises(KeyboardInterrupt):
        calls.run("step", raising(SystemExit()))
    assert calls.interrupted
    calls.prepare_reset()
    assert len(given_up) == 2
    calls.interrupted = False
    calls.prepare_reset()
    assert len(given_up) == 2


def test_no_call_begins_in_the_midst_of_another() -> None:
    calls = Scene().calls
    with pytest.raises(AlreadyPendingCallError, match=r"render\(\) came in the midst of step\(\)"):
        calls.run("step", lambda: calls.check("render"))


def test_nobody_else_collects_what_is_being_collected() -> None:
    calls = Scene().calls
    calls.post("step", lambda: None)
    with pytest.raises(AlreadyPendingCallError, match=r"step_wait\(\) came in the midst of step_wait\(\)"):
        calls.collect(lambda _: calls.collect(lambda _: 1, None), None)
    assert calls.interrupted


class TestInTwoHalves:
    def test_what_was_posted_is_collected(self) -> None:
        calls = Scene().calls
        sent: list[int] = []
        calls.post("step", sent.append, 3)
        assert (sent, calls.pending) == ([3], "step")
        with pytest.raises(AlreadyPendingCallError, match=r"call step_wait\(\) first"):
            calls.check("reset_async")
        assert calls.collect(lambda deadline: deadline, None) is None
        assert calls.pending == ""

    def test_nothing_is_pending_that_was_not_sent(self) -> None:
        calls = Scene().calls
        with pytest.raises(SessionLostError):
            calls.post("step", raising(SessionLostError("gone")))
        assert calls.pending == ""

    def test_who_stops_waiting_may_wait_again(self) -> None:
        calls = Scene().calls
        calls.post("reset", lambda: None)
        with pytest.raises(WaitTimeout, match=r"reset_wait\(\) waits on"):
            calls.collect(raising(TimeoutError()), 0.0)
        assert calls.pending == "reset"
        with pytest.raises(SessionLostError):
            calls.collect(raising(SessionLostError("gone")), None)
        assert calls.pending == ""
        calls.check_known()

    def test_a_timeout_that_is_no_number_changes_nothing(self) -> None:
        calls = Scene().calls
        calls.post("step", lambda: None)
        with pytest.raises(TypeError, match="timeout is '1'; write seconds, or None"):
            calls.collect(lambda deadline: 7, "1")  # type: ignore[arg-type]
        assert calls.collect(lambda deadline: 7, np.float64(9.0)) == 7

    def test_an_interrupt_ends_the_waiting(self) -> None:
        scene = Scene()
        scene.calls.post("step", lambda: None)
        with pytest.raises(KeyboardInterrupt):
            scene.calls.collect(raising(KeyboardInterrupt()), None)
        assert (scene.calls.pending, scene.calls.interrupted) == ("", True)
        assert scene.given_up == ["steps", "batches"]


def test_an_alarm_is_no_deadline() -> None:
    with pytest.raises(TimeoutError, match="an alarm"):
        wait(raising(TimeoutError("an alarm")), 60.0, "late")
    with pytest.raises(TimeoutError, match="an alarm"):
        wait(raising(TimeoutError("an alarm")), None, "late")
    with pytest.raises(WaitTimeout, match="late"):
        wait(raising(TimeoutError()), 0.0, "late")
    assert 0.0 < wait(lambda deadline: deadline, 60.0, "late") - monotonic() <= 60.0
