"""The table of the conversation, as a table; docs/protocol.md pins it row by row."""

from __future__ import annotations

from typing import get_args

import pytest

from openenv_gym.protocol.messages import Close, Closed, Error, Hello, Reply, Request, Resume, Welcome
from openenv_gym.protocol.states import ANSWERS, TRANSITIONS, Phase

REQUESTS, REPLIES = {*get_args(Request)}, {*get_args(Reply)}


def test_every_request_has_an_answer_and_every_reply_answers_something() -> None:
    assert {*ANSWERS} == REQUESTS
    assert {*ANSWERS.values()} | {Error} == REPLIES


@pytest.mark.parametrize("request_class", get_args(Request), ids=lambda cls: cls.__name__)
def test_an_answer_may_come_in_the_phase_that_its_request_leads_to(request_class: type) -> None:
    phases = {row[request_class] for row in TRANSITIONS.values() if request_class in row}
    assert len(phases) == 1
    (phase,) = phases
    assert {ANSWERS[request_class], Error} <= TRANSITIONS[phase].keys()


def test_requests_and_their_replies_never_meet_in_one_phase() -> None:
    for phase, row in TRANSITIONS.items():
        asked, answered = row.keys() & REQUESTS, row.keys() & REPLIES - {Error}
        assert not (asked and answered), phase


def test_every_phase_has_a_row_and_is_reached() -> None:
    assert [*TRANSITIONS] == [*Phase]
    reached, found = set(), {Phase.NEW}
    while found:
        phase = found.pop()
        reached.add(phase)
        found |= {*TRANSITIONS[phase].values()} - reached
    assert reached == {*Phase}


def test_a_connection_begins_with_hello_or_resume_and_nothing_follows_the_end() -> None:
    assert {*TRANSITIONS[Phase.NEW]} == {Hello, Resume}
    assert TRANSITIONS[Phase.CLOSED] == {}
    assert TRANSITIONS[Phase.BUSY][Closed] is Phase.CLOSED
    assert TRANSITIONS[Phase.IDLE][Close] is Phase.BUSY


def test_a_lost_welcome_may_come_once_more() -> None:
    assert TRANSITIONS[Phase.RESUMING][Welcome] is Phase.IDLE


def test_phases_hash_by_identity_and_compare_by_it() -> None:
    assert len({*Phase, *Phase}) == len(Phase) == 6
    assert {phase: phase.name for phase in Phase}[Phase.BUSY] == "BUSY"
