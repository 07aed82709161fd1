"""Our server answers what was said to the openenv package's, and recorded, as that did."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.exchanges import EXCHANGES, Step
from tests.interop.targets import ours_serving
from tests.interop.transcripts import CLIENTS, SERVERS
from tests.interop.wire import judged, play

CODES = {"INVALID_JSON", "UNKNOWN_TYPE", "VALIDATION_ERROR", "EXECUTION_ERROR"}
CODES |= {"CAPACITY_REACHED", "FACTORY_ERROR", "SESSION_ERROR"}
RPC_CODES = {-32700, -32600, -32601, -32602, -32603, -32000}


@pytest.fixture(scope="module")
def ours() -> Iterator[dict[str, str]]:
    with ours_serving("probe", "solo", "broken", "tools", "closed") as urls:
        yield urls


def test_every_exchange_was_recorded() -> None:
    assert [each["name"] for each in SERVERS] == [exchange.name for exchange in EXCHANGES]
    for each, exchange in zip(SERVERS, EXCHANGES, strict=True):
        assert [step["to"] for step in each["steps"]] == [step.to for step in exchange.steps]


def test_every_kind_of_message_and_every_code_was_recorded() -> None:
    text = json.dumps(SERVERS)
    assert set(re.findall(r'"send": {"type": "(\w+)"', text)) >= {"reset", "step", "state", "close", "mcp"}
    assert set(re.findall(r'"frame": {"type": "(\w+)"', text)) == {"observation", "state", "error", "mcp"}
    assert set(re.findall(r'"code": "(\w+)"', text)) == CODES
    assert set(map(int, re.findall(r'"code": (-\d+)', text))) == RPC_CODES


@pytest.mark.parametrize("number", range(len(SERVERS)), ids=[each["name"] for each in SERVERS])
def test_answers_are_alike(number: int, ours: dict[str, str]) -> None:
    exchange, recorded = EXCHANGES[number], SERVERS[number]
    answers = play(ours[exchange.kind], exchange.steps)
    assert judged(exchange.steps, [step["receive"] for step in recorded["steps"]], answers) == []


@pytest.mark.parametrize("recorded", CLIENTS, ids=lambda recorded: recorded["name"])
def test_its_clients_are_answered(recorded: dict[str, Any], ours: dict[str, str]) -> None:
    steps = [Step(step["to"], step["send"]) for step in recorded["steps"]]
    answers = play(ours[recorded["kind"]], steps)
    assert len(answers) > 3
    assert judged(steps, [step["receive"] for step in recorded["steps"]], answers) == []
