from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.errors import ConfigError, JudgeError, OpenEnvError, from_wire
from openenv_gym.rubrics import LLMJudge, Sequential, WeightedSum
from tests.rubrics.rubrics import Fixed, Said, Say
from tests.rubrics.scripted import Reply, scripted, text


class Model:
    """Answers as told, and keeps the prompts."""

    def __init__(self, answer: Any = "0.5") -> None:
        self.answer = answer
        self.prompts: list[str] = []

    async def complete(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if isinstance(self.answer, Exception):
            raise self.answer
        return str(self.answer)


def judged(judge: LLMJudge, action: Any = "a", observation: Any = "o") -> float:
    return asyncio.run(judge(action, observation))  # type: ignore[arg-type]


def prompt_for(template: str, action: Any, observation: Any) -> str:
    model = Model()
    judged(LLMJudge(template, model), action, observation)
    return model.prompts[0]


# -- prompts


def test_the_prompt_holds_action_and_observation() -> None:
    action, observation = Say(text="hi"), Said(text='"ja"', reward=1.0, metadata={"secret": 1})
    prompt = prompt_for("{action} -> {observation} / {action.text!r:>6} {{0 to 1}}", action, observation)
    assert prompt == '{"text": "hi"} -> {"text": "\\"ja\\""} /   \'hi\' {0 to 1}'
    assert prompt_for("{observation[x]}, {action}", None, {"x": 3}) == "3, None"


@given(st.text(), st.text())
def test_what_fills_a_field_is_taken_as_it_is(said: str, heard: str) -> None:
    said, heard = f"{{observation}}{said}", f"{heard}{{action.__class__}}{{{{"
    prompt = prompt_for("<{action}|{action.text}|{observation.text}>", Say(text=said), Said(text=heard))
    filled = json.dumps({"text": said}, ensure_ascii=False)
    assert prompt == f"<{filled}|{said}|{heard}>"


@pytest.mark.parametrize(
    "template",
    [
        "{}",
        "{0}",
        "{score}",
        '{"score": 0.5}',
        "{action.__class__}",
        "{action.text._private}",
        "{observation[__class__].x.__init__}",
        "{action:{observation}}",
        "{action",
        "action}",
    ],
)
def test_a_template_with_other_fields_is_refused(template: str) -> None:
    with pytest.raises(
        ConfigError, match="a brace that is no field is written twice|A brace that is no field"
    ):
        LLMJudge(template, Model())


def test_the_prompt_may_be_built_otherwise() -> None:
    class Own(LLMJudge):
        def _render_prompt(self, action: Any, observation: Any) -> str:
            return f"{action}?"

        def _parse_score(self, answer: str) -> float:
            return len(answer)

    model = Model("four")
    assert judged(Own("", model)) == 4.0
    assert model.prompts == ["a?"]


# -- scores


def test_the_answer_is_the_score() -> None:
    judge = LLMJudge("{action}", Model('{"score": 0.75}'))
    assert judged(judge) == 0.75 == judge.last_score


def test_a_range_is_mapped_onto_zero_to_one() -> None:
    assert judged(LLMJudge("", Model("7"), score_range=(1, 10))) == pytest.approx(2 / 3)
    assert judged(LLMJudge("", Model("7"), score_range=(1, 10), normalize=False)) == 7.0


def test_a_pattern_finds_the_score() -> None:
    assert (
        judged(LLMJudge("", Model("6 points of 10"), score_pattern=r"(\d+) points", score_range=(0, 10)))
        == 0.6
    )


@pytest.mark.parametrize("answer", ["good", "0.5 or 0.6", "1.5", '{"score": -1}', '{"score": NaN}', ""])
def test_an_answer_without_a_score_is_an_error(answer: str) -> None:
    with pytest.raises(JudgeError, match="the answer to LLMJudge has no score") as caught:
        judged(LLMJudge("", Model(answer)))
    assert caught.value.details == {"rubric": "LLMJudge", "answer": answer}
    assert judged(LLMJudge("", Model(answer), default_score=0.25)) == 0.25


def test_a_client_that_fails_is_an_error_whatever_the_default() -> None:
    broken = ConnectionError("gone")
    broken.status_code = 503  # type: ignore[attr-defined]
    tree = WeightedSum([LLMJudge("", Model(broken), default_score=0.0), Fixed()], [0.5, 0.5])
    with pytest.raises(
        JudgeError, match="LLMJudge 'rubric_0' could not ask its model: ConnectionError: gone"
    ) as caught:
        asyncio.run(tree("a", "o"))  # type: ignore[arg-type]
    assert caught.value.details == {"rubric": "LLMJudge 'rubric_0'", "status": 503}
    assert caught.value.__cause__ is broken
    assert tree.last_score is None


def test_a_client_answers_with_a_text() -> None:
    class Silent(Model):
        async def complete(self, prompt: str) -> Any:
            return None

    with pytest.raises(JudgeError, match="the client of LLMJudge answered with NoneType"):
        judged(LLMJudge("", Silent(), default_score=1.0))


def test_the_error_crosses_the_wire() -> None:
    with scripted(Reply(b"no", 400)) as server, pytest.raises(JudgeError) as caught:
        judged(LLMJudge("", base_url=server.base_url, model="m"))
    error: OpenEnvError = caught.value
    there = from_wire(error.code, error.message, error.details)
    assert isinstance(there, JudgeError)
    assert there.details == {"attempts": 1, "status": 400, "rubric": "LLMJudge"}


def test_a_whole_judgement_over_http() -> None:
    with scripted(Reply(status=500, headers={"Retry-After": "0"}), text('{"score": 1}')) as server:
        judge = LLMJudge("Rate {action}", base_url=server.base_url, model="m", request={"max_tokens": 9})
        tree = Sequential(Fixed(), judge)
        assert asyncio.run(tree("this", None)) == 1.0  # type: ignore[arg-type]
    assert server.calls == 2
    assert server.asked[0].body["max_tokens"] == 9
    assert server.asked[0].body["messages"][0]["content"] == "Rate this"


# -- arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs a client, or base_url and model"),
        ({"base_url": "http://h"}, "needs a client, or base_url and model"),
        ({"client": Model(), "base_url": "http://h"}, "the client's business"),
        ({"client": Model(), "model": "m"}, "only an openai client needs them"),
        (
            {"client": object()},
            r"client has to have complete\(prompt\), or be a client of openai, not object",
        ),
        ({"client": type("Client", (), {"chat": None})()}, "needs a model beside it"),
        ({"client": Model(), "score_pattern": "("}, "score_pattern '\\('"),
        ({"client": Model(), "default_score": math.nan}, "default_score has to be a finite number"),
        ({"client": Model(), "score_range": (1, 1)}, "score_range has to be"),
        ({"client": Model(), "score_range": (0, math.inf)}, "score_range has to be"),
        ({"client": Model(), "score_range": (0, 1, 2)}, "score_range has to be"),
        ({"client": Model(), "score_range": (None, 1)}, "score_range has to be a finite number, not None"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LLMJudge("", **arguments)


def test_settings_travel_through_json() -> None:
    judge = LLMJudge(
        "{action}", Model("5"), score_pattern=r"\d", default_score=0.5, score_range=(0, 10), normalize=False
    )
    state = json.loads(json.dumps(judge.state_dict()))
    assert state == {
        "prompt_template": "{action}",
        "score_pattern": r"\d",
        "default_score": 0.5,
        "score_range": [0.0, 10.0],
        "normalize": False,
    }
    other = LLMJudge("", Model("5"))
    other.load_state_dict(state)
    assert other.state_dict() == judge.state_dict()
    assert judged(other) == 5.0
