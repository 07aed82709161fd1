"""An LLM judge against a real model: SmolLM2 behind llama.cpp's server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv_gym.errors import JudgeError
from openenv_gym.rubrics import ChatModel, LLMJudge, Rubric, WeightedSum
from tests.support.external import ROOT, run
from tests.support.models import ensure_venv, model_server

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

SCORES = [0, 0.25, 0.5, 0.75, 1]
SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "number", "enum": SCORES}},
    "required": ["score"],
}
REQUEST = {
    "temperature": 0,
    "max_tokens": 32,
    "response_format": {"type": "json_schema", "json_schema": {"name": "score", "schema": SCHEMA}},
}
PROMPT = 'How well does "{action}" answer "{observation}"? Reply as JSON: {{"score": number from 0 to 1}}.'
QUESTION = "What is the capital of France?"


@pytest.fixture(scope="module")
def python() -> Path:
    return ensure_venv()


@pytest.fixture(scope="module")
def address(python: Path) -> Iterator[str]:
    with model_server(python) as address:
        yield address


def judge(address: str) -> LLMJudge:
    return LLMJudge(PROMPT, base_url=address, model="smollm2", request=REQUEST)


def score(rubric: Rubric, action: str) -> Any:
    return asyncio.run(rubric(action, QUESTION))  # type: ignore[arg-type]


def test_the_model_gives_scores_and_the_same_again(address: str) -> None:
    rubric = judge(address)
    first = score(rubric, "Paris")
    assert first in SCORES
    assert score(rubric, "Paris") == first


def test_judges_run_side_by_side(address: str) -> None:
    rubric = WeightedSum([judge(address) for _ in range(3)], [0.5, 0.25, 0.25])
    assert score(rubric, "Paris") == score(judge(address), "Paris")
    assert {child.last_score for child in rubric.children()} == {rubric.last_score}


def test_an_answer_that_is_cut_off_is_no_score(address: str) -> None:
    model = ChatModel(address, "smollm2", request={"max_tokens": 1}, max_attempts=2)
    with pytest.raises(JudgeError, match="asked 2 times, gave an answer that was cut off"):
        score(LLMJudge("Tell a long story about {action}.", model), "Paris")


def test_what_the_server_refuses_is_no_score(address: str) -> None:
    model = ChatModel(f"{address}/nowhere", "smollm2")
    with pytest.raises(JudgeError, match="asked once, answered with HTTP 404"):
        score(LLMJudge("{action}", model), "Paris")


def test_clients_of_openai_can_be_the_judge_s_own(address: str, python: Path, tmp_path: Path) -> None:
    command = [str(ROOT / "tests" / "external" / "judge_openai.py"), address, json.dumps(REQUEST)]
    scores = json.loads(run(python, command, tmp_path))
    assert len(scores) == 2
    assert set(scores) <= set(SCORES)
