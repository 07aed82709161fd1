from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from openenv_gym.errors import RemoteEnvironmentError, VectorEnvError, WorkerCrashedError
from openenv_gym.wrappers.vector.failures import describe_lanes, facts_of, numbered, vector_error


@pytest.mark.parametrize(
    ("lanes", "text"),
    [
        ([3], "lane 3"),
        ([1, 0], "lanes 0, 1"),
        ([0, 2, 8, 9, 10], "lanes 0, 2, 8 to 10"),
        (range(100), "lanes 0 to 99"),
        (range(0, 100, 2), "lanes " + ", ".join(map(str, range(0, 40, 2))) + ", ..."),
    ],
)
def test_lanes_in_words(lanes: Sequence[int], text: str) -> None:
    assert describe_lanes(lanes) == text


def test_one_error_names_lanes_servers_and_causes() -> None:
    crash = WorkerCrashedError("killed by SIGKILL", server="ws://b:1", exit_code=-9, log=["last line"])
    raised = RemoteEnvironmentError("KeyError: 'x'", server="ws://a:1", type="KeyError")
    error = vector_error({6: crash, 2: raised, 5: crash}, 8, ("partial",))
    assert isinstance(error, VectorEnvError)
    assert error.lanes == (2, 5, 6)
    assert error.mask.dtype == np.bool_
    assert np.flatnonzero(error.mask).tolist() == [2, 5, 6]
    assert error.partial == ("partial",)
    assert error.errors == {2: raised, 5: crash, 6: crash}
    assert (error.server, error.details) == ("ws://a:1", {"type": "KeyError"})
    lines = str(error).splitlines()
    assert lines[0] == "lanes 2, 5, 6 of 8 failed; the others did not."
    assert "lane 2 on ws://a:1: RemoteEnvironmentError: KeyError: 'x'" in lines
    assert "lanes 5, 6 on ws://b:1: WorkerCrashedError: killed by SIGKILL" in lines
    assert "reset_mask" in lines[-1]


def test_the_lanes_of_a_session_are_numbered_as_those_of_the_vector() -> None:
    error = RemoteEnvironmentError("lane 1: KeyError: 'lane 1: x'", type="KeyError", lanes=[1, 2])
    assert numbered(error, range(4, 7)) == [5, 6]
    assert (error.message, str(error)) == ("lane 5: KeyError: 'lane 1: x'",) * 2
    assert error.details == {"type": "KeyError", "lanes": [5, 6]}


@pytest.mark.parametrize("details", [{}, {"lanes": []}, {"lanes": [3]}, {"lanes": "all"}, {"lanes": [None]}])
def test_an_error_without_lanes_is_that_of_the_whole_session(details: dict[str, object]) -> None:
    error = WorkerCrashedError("killed", **details)
    assert numbered(error, range(4, 7)) == range(4, 7)
    assert (str(error), error.details) == ("killed", details)


def test_where_no_episode_ended_no_reset_is_advised() -> None:
    error = vector_error({0: RemoteEnvironmentError("KeyError")}, 2, ended=False)
    assert str(error).endswith("stays open, and all episodes go on.")


def test_many_causes_are_not_all_told() -> None:
    error = vector_error({lane: WorkerCrashedError(f"cause {lane}") for lane in range(9)}, 9)
    assert "cause 2" in str(error)
    assert "cause 3" not in str(error)
    assert "and 6 more failures" in str(error)
    assert len(error.errors) == 9


def test_what_an_info_says_of_a_loss() -> None:
    facts = facts_of(WorkerCrashedError("killed", server="ws://a:1", exit_code=1))
    assert facts == {"error": "worker_crashed", "message": "killed", "server": "ws://a:1"}
