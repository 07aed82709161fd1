from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from openenv_gym.client.opening import Opener
from openenv_gym.client.settings import ClientSettings
from openenv_gym.errors import RemoteEnvironmentError, SessionLostError
from openenv_gym.protocol.columns import column_codec
from openenv_gym.protocol.messages import LaneFailure, Observation, Transition
from openenv_gym.wrappers.vector.batches import LastSeen, empty_batch
from openenv_gym.wrappers.vector.fleet import Part
from openenv_gym.wrappers.vector.landing import Landing, ended

SPACE = spaces.Box(0, 100, (), np.int64)
CODEC = column_codec(SPACE)
OPENER = Opener(ClientSettings(base_url="ws://h:1"), None)
LEFT, RIGHT = Part(OPENER, 0, 2), Part(OPENER, 2, 2)


def column(*values: int) -> Any:
    return CODEC.encode([np.array(value) for value in values])


def doubles(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def indices(*lanes: int) -> bytes:
    return np.array(lanes, "<u4").tobytes()


def landing(last: LastSeen | None = None) -> Landing:
    return Landing(CODEC, last or LastSeen(CODEC, 4), 4, empty_batch(SPACE, 4))


def transition(*values: int, **fields: Any) -> Transition:
    fields = {"rewards": doubles(*values), "flags": bytes(len(values)), **fields}
    return Transition(1, column(*values), **fields)


def test_the_replies_of_all_parts_make_one_batch() -> None:
    found = landing()
    found.step(LEFT, transition(1, 2, flags=b"\1\2", infos=[{"a": 1}, {}]))
    found.step(RIGHT, transition(3, 4, infos=[{}, {"a": 5}]))
    assert found.batch.tolist() == [1, 2, 3, 4]
    assert found.rewards.tolist() == [1.0, 2.0, 3.0, 4.0]
    terminated, truncated = ended(found.flag_bytes)
    assert terminated.tolist() == [True, False, False, False]
    assert truncated.tolist() == [False, True, False, False]
    assert terminated.dtype == truncated.dtype == np.bool_
    infos = found.infos()
    assert infos["a"].tolist() == [1, 0, 0, 5]
    assert infos["_a"].tolist() == [True, False, False, True]


@pytest.mark.parametrize("rewards", [doubles(3, 4), [np.array([3, 4], np.float32)]])
def test_what_one_session_replies_for_all_lanes_is_taken_as_it_is(rewards: Any) -> None:
    found = Landing(CODEC, LastSeen(CODEC, 2), 2)
    reply = transition(1, 2, rewards=rewards, flags=b"\1\x12")
    found.step(LEFT, reply)
    assert (found.batch.tolist(), found.rewards.tolist()) == ([1, 2], [3.0, 4.0])
    assert found.rewards.dtype == (np.float64 if type(rewards) is bytes else np.float32)
    assert [each.tolist() for each in ended(found.flag_bytes)] == [[True, False], [False, True]]
    assert found.flags.tolist() == [1, 2]
    for array in (found.batch, found.rewards, *ended(found.flag_bytes)):
        array[:] = 0
    found.keep(LEFT, LEFT.lanes)
    assert found.batch.tolist() == [1, 2]


def test_a_batch_that_was_given_is_written_in_place() -> None:
    buffer = empty_batch(SPACE, 2)
    found = Landing(CODEC, LastSeen(CODEC, 2), 2, buffer)
    found.step(LEFT, transition(1, 2))
    assert found.batch is buffer and buffer.tolist() == [1, 2]


def test_where_an_episode_ended_and_the_next_began_both_infos_count() -> None:
    found = landing()
    reply = transition(
        1,
        2,
        flags=bytes([0, 1 | 16]),
        final_observations=column(9),
        final_infos=[{"why": 3}],
        infos=[{}, {"new": 4}],
    )
    found.step(LEFT, reply)
    infos = found.infos()
    assert list(infos) == ["final_obs", "_final_obs", "final_info", "_final_info", "new", "_new"]
    assert infos["final_obs"].tolist() == [None, 9, None, None]
    assert infos["final_info"]["why"].tolist() == [0, 3, 0, 0]
    assert infos["new"].tolist() == [0, 4, 0, 0]
    assert found.flags.tolist() == [0, 1, 0, 0]


def test_empty_final_infos_have_a_mask_all_the_same() -> None:
    found = landing()
    found.step(LEFT, transition(1, 2, flags=bytes([18, 0]), final_observations=column(9)))
    infos = found.infos()
    assert infos["final_info"] == {}
    assert infos["_final_info"].tolist() == [True, False, False, False]


def test_a_lane_that_failed_keeps_its_last_observation() -> None:
    last = LastSeen(CODEC, 4)
    first = landing(last)
    first.reset(LEFT, Observation(1, column(5, 6)))
    found = landing(last)
    failure = LaneFailure(
        lane=0, code="environment", message="KeyError: 'x'", details={"traceback": "line 3"}
    )
    found.step(LEFT, transition(7, lanes=indices(1), failed=[failure], infos=[{"a": 1}]))
    assert found.batch[:2].tolist() == [5, 7]
    assert found.rewards[:2].tolist() == [0.0, 7.0]
    assert list(found.errors) == [0]
    error = found.errors[0]
    assert isinstance(error, RemoteEnvironmentError)
    assert "line 3" in error.message
    assert error.server == "ws://h:1"
    assert found.infos()["_a"].tolist() == [False, True, False, False]


def test_a_lane_never_seen_has_zeros() -> None:
    found = landing()
    found.fail(RIGHT, SessionLostError("gone"))
    assert found.batch[2:].tolist() == [0, 0]
    assert sorted(found.errors) == [2, 3]


def test_lost_lanes_end_truncated_and_say_why() -> None:
    last = LastSeen(CODEC, 4)
    landing(last).reset(RIGHT, Observation(1, column(5, 6)))
    found = landing(last)
    found.truncate(RIGHT, SessionLostError("gone", server="ws://h:1"), [2, 3], tell=True)
    found.step(LEFT, transition(1, 2, infos=[{"a": 1}, {}]))
    assert found.batch.tolist() == [1, 2, 5, 6]
    assert ended(found.flag_bytes)[1].tolist() == [False, False, True, True]
    infos = found.infos()
    assert list(infos) == ["a", "_a", "openenv", "_openenv"]
    assert infos["openenv"]["error"].tolist() == [None, None, "session_lost", "session_lost"]
    assert found.lost_lanes.tolist() == [False, False, True, True]


def test_lanes_that_begin_again_at_once_have_both_ends() -> None:
    last = LastSeen(CODEC, 4)
    landing(last).reset(RIGHT, Observation(1, column(5, 6)))
    found = landing(last)
    cause = SessionLostError("gone")
    found.truncate(RIGHT, cause, [2, 3], tell=False)
    found.restart(RIGHT, Observation(2, column(0, 1), [{"new": 1}, {}]), cause)
    assert found.batch[2:].tolist() == [0, 1]
    assert ended(found.flag_bytes)[1].tolist() == [False, False, True, True]
    infos = found.infos()
    assert infos["final_obs"].tolist() == [None, None, 5, 6]
    assert infos["final_info"]["openenv"]["message"].tolist() == [None, None, "gone", "gone"]
    assert infos["_new"].tolist() == [False, False, True, False]


def test_a_vector_class_has_its_own_infos_and_rewards() -> None:
    found = Landing(CODEC, LastSeen(CODEC, 2), 2, empty_batch(SPACE, 2))
    info = {"anything": np.array([1, 2])}
    found.step(LEFT, transition(1, 2, rewards=[np.array([0.5, 1.5], np.float32)], batch_info=info))
    assert found.infos() is info
    assert found.rewards.tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    "reply",
    [
        transition(1, 2, flags=b"\0"),
        transition(1, 2, rewards=doubles(1)),
        transition(1, 2, rewards=[np.zeros(3)]),
        transition(1, 2, infos=[{}]),
        transition(1, 2, lanes=indices(0, 5)),
        transition(1, 2, lanes=indices(1, 1)),
        transition(1, failed=[LaneFailure(lane=7, code="x", message="y")]),
        transition(1, 2, flags=b"\x10\0", final_observations=column(1), final_infos=[{}, {}]),
    ],
)
def test_a_reply_that_does_not_fit_is_refused(reply: Transition) -> None:
    with pytest.raises(ValueError, match=r"."):
        landing().step(LEFT, reply)


def test_the_order_in_which_parts_land_makes_no_difference() -> None:
    replies = [
        (LEFT, transition(1, 2, infos=[{"a": 1.5}, {"b": "x"}])),
        (RIGHT, transition(3, 4, infos=[{"c": 1}, {"a": 7}])),
    ]
    infos = []
    for order in (replies, replies[::-1]):
        found = landing()
        for part, reply in order:
            found.step(part, reply)
        assert found.rewards.tolist() == [1.0, 2.0, 3.0, 4.0]
        infos.append(found.infos())
    assert list(infos[0]) == list(infos[1]) == ["a", "_a", "b", "_b", "c", "_c"]
    assert infos[0]["a"].tolist() == infos[1]["a"].tolist() == [1.5, 0.0, 0.0, 7.0]


def test_the_order_in_which_vectors_land_makes_no_difference() -> None:
    found = landing()
    for part, name in ((RIGHT, "second"), (LEFT, "first")):
        found.step(part, transition(1, 2, batch_info={name: np.array([1, 2])}))
    assert list(found.infos()) == ["first", "second"]
