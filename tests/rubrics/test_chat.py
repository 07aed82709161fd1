from __future__ import annotations

import asyncio
import math
import pickle
import random
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

import pytest

from openenv_gym.errors import ConfigError, JudgeError
from openenv_gym.rubrics import ChatModel, chat
from openenv_gym.rubrics.chat import OpenAIChat
from openenv_gym.rubrics.posting import Answer
from tests.rubrics.scripted import Reply, scripted, text

GOOD = text("0.5")
BUSY = Reply(b'{"error": "busy"}', 429)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The pauses that were asked for; none is made."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr(chat, "_sleep", sleep)
    yield found


def ask(base_url: str, prompt: str = "How good?", **options: Any) -> str:
    return asyncio.run(ChatModel(base_url, "small", **options).complete(prompt))


def refused(base_url: str, **options: Any) -> JudgeError:
    with pytest.raises(JudgeError) as caught:
        ask(base_url, **options)
    return caught.value


def test_the_request_is_that_of_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "secret")
    with scripted(GOOD) as server:
        answer = ask(server.base_url, "größer?\ud800", api_key_env="JUDGE_KEY", request={"temperature": 0})
    assert answer == "0.5"
    (asked,) = server.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["Authorization"] == "Bearer secret"
    assert asked.headers["Content-Type"] == "application/json"
    message = {"role": "user", "content": "größer?\ud800"}
    assert asked.body == {"model": "small", "messages": [message], "temperature": 0}


def test_without_a_key_none_is_sent() -> None:
    with scripted(GOOD) as server:
        ask(f"{server.base_url}/proxy/v2/")
    assert "Authorization" not in server.asked[0].headers
    assert server.asked[0].path == "/proxy/v2/chat/completions"


PASSING = {
    "busy": (BUSY, "answered with HTTP 429: '{"),
    "timeout": (Reply(status=408), "answered with HTTP 408: ''"),
    "broken": (Reply(b"oops", 500), "answered with HTTP 500: 'oops'"),
    "down": (Reply(status=503), "answered with HTTP 503"),
    "cut-off": (text("0.", "length"), "gave an answer that was cut off; a larger max_tokens"),
    "html": (Reply(b"<html>hello</html>"), "something else than a chat completion (JSON is malformed"),
    "empty": (
        Reply(b'{"choices": []}'),
        "something else than a chat completion (Expected `array` of length >= 1",
    ),
    "odd": (Reply(b'{"choices": [{"message": {"content": 1}}]}'), "(Expected `str | null`, got `int`"),
    "deep": (Reply(b"[" * 100_000), "something else than a chat completion"),
    "short": (
        Reply(GOOD.body, missing=10),
        "something else than a chat completion (Input data was truncated)",
    ),
    "gone": (Reply(hold=True), "could not be asked: Remote end closed connection"),
}


@pytest.mark.parametrize("kind", PASSING)
def test_what_may_pass_is_tried_again(kind: str, pauses: list[float]) -> None:
    reply, _ = PASSING[kind]
    with scripted(reply, reply, GOOD) as server:
        server.over.set()
        assert ask(server.base_url) == "0.5"
    assert server.calls == 3
    assert len(pauses) == 2
    assert 0.25 <= pauses[0] <= 0.5 <= pauses[1] <= 1.0


@pytest.mark.parametrize("kind", PASSING)
def test_what_does_not_pass_is_an_error_after_the_last_attempt(kind: str, pauses: list[float]) -> None:
    reply, message = PASSING[kind]
    with scripted(reply) as server:
        server.over.set()
        error = refused(server.base_url, max_attempts=4)
    assert (server.calls, error.details["attempts"], len(pauses)) == (4, 4, 3)
    assert message in str(error)
    assert f"small at {server.base_url}/v1, asked 4 times, " in str(error)


@pytest.mark.parametrize("status", [301, 307, 400, 401, 404, 422])
def test_what_no_attempt_would_mend_is_an_error_at_once(status: int) -> None:
    with scripted(Reply(b"no" * 1000, status)) as server:
        error = refused(server.base_url)
    assert server.calls == 1
    assert error.details == {"attempts": 1, "status": status}
    assert f"asked once, answered with HTTP {status}: 'nono" in str(error)
    assert len(str(error)) < 500


def test_an_answer_without_text_is_an_error_at_once() -> None:
    with scripted(text(None, "content_filter")) as server:
        assert "gave no text (finish_reason 'content_filter')" in str(refused(server.base_url))
    assert server.calls == 1


def test_the_key_is_in_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "secret")
    with scripted(Reply(status=401)) as server:
        error = refused(server.base_url, api_key_env="JUDGE_KEY")
    assert "secret" not in str(error) + repr(error.details)


def test_no_server_may_pass() -> None:
    with socket.socket() as taken:  # and not listened on, so that nobody else does
        taken.bind(("127.0.0.1", 0))
        error = refused(f"http://127.0.0.1:{taken.getsockname()[1]}", max_attempts=2)
    assert "asked 2 times, could not be asked: " in str(error)
    assert error.details == {"attempts": 2, "status": None}


def test_silence_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([Answer(200, Message(), GOOD.body)])
    waits: list[float] = []

    async def silent_at_first(_post: Any, *args: Any) -> Answer:
        waits.append(args[-1])
        if len(waits) < 3:
            await asyncio.Event().wait()
        return next(answers)

    monkeypatch.setattr(chat, "in_thread", silent_at_first)
    assert ask("http://host", timeout=0.01, deadline=60.0) == "0.5"
    assert waits == [0.01] * 3


def test_silence_to_the_end_is_an_error() -> None:
    with scripted(Reply(hold=True)) as server:
        error = refused(server.base_url, timeout=0.05, max_attempts=2)
    assert "asked 2 times, did not answer within 0.05 s" in str(error)


def test_a_server_may_say_how_long_to_wait(pauses: list[float]) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    replies = [Reply(status=429, headers={"Retry-After": when}) for when in ("7", later, "0", "soon", "-1")]
    with scripted(*replies, GOOD) as server:
        ask(server.base_url, max_attempts=6)
    assert pauses[0] == 7.0
    assert 50 < pauses[1] <= 100
    assert all(0 < pause <= 8.0 for pause in pauses[2:])


def test_a_pause_beyond_the_deadline_is_not_made(pauses: list[float]) -> None:
    with scripted(Reply(status=429, headers={"Retry-After": "3600"})) as server:
        error = refused(server.base_url, deadline=60.0)
    assert "3.6e+03 s later, would miss the deadline of 60 s" in str(error)
    assert (server.calls, pauses) == (1, [])


def test_pauses_grow_to_a_limit_and_leave_the_generator_alone(pauses: list[float]) -> None:
    random.seed(1)
    state = random.getstate()
    with scripted(BUSY) as server:
        refused(server.base_url, max_attempts=9, deadline=1000.0)
    assert all(0.25 * 2**n <= pause <= 0.5 * 2**n for n, pause in enumerate(pauses[:5]))
    assert all(4.0 <= pause <= 8.0 for pause in pauses[4:])
    assert random.getstate() == state


@pytest.mark.parametrize(
    "base_url",
    ["ftp://host/v1", "host:8000", "http://", "http://user:secret@host/v1", "http://h/v1?a=b", "http://h/#x"],
)
def test_an_address_is_checked_before_anything_is_sent(base_url: str) -> None:
    with pytest.raises(ConfigError, match="base_url has to") as caught:
        ChatModel(base_url, "small")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "option", [{"max_attempts": 0}, {"timeout": 0.0}, {"deadline": -1.0}, {"timeout": math.nan}]
)
def test_limits_are_positive(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="have to be positive"):
        ChatModel("http://host", "small", **option)


@pytest.mark.parametrize("key", ["", " ", "secret\nX-Header: 1", "sécret"])
def test_a_key_that_cannot_be_sent_is_refused_at_once(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", key)
    with pytest.raises(ConfigError, match="JUDGE_KEY has to hold the key") as caught:
        ChatModel("http://host", "small", api_key_env="JUDGE_KEY")
    assert "cret" not in str(caught.value)
    monkeypatch.delenv("JUDGE_KEY")
    with pytest.raises(ConfigError, match="JUDGE_KEY has to hold the key"):
        ChatModel("http://host", "small", api_key_env="JUDGE_KEY")


def test_white_space_around_a_key_is_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", " secret\n")
    with scripted(GOOD) as server:
        ask(server.base_url, api_key_env="JUDGE_KEY")
    assert server.asked[0].headers["Authorization"] == "Bearer secret"


def test_a_model_can_be_pickled_and_holds_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "secret")
    stored = pickle.dumps(ChatModel("http://host", "small", api_key_env="JUDGE_KEY"))
    assert b"secret" not in stored
    assert pickle.loads(stored).base_url == "http://host/v1"


# -- clients of openai


def client(create: Any) -> Any:
    return SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))


def completion(content: str | None, finish_reason: str = "stop") -> Any:
    message = SimpleNamespace(content=content)
    return SimpleNamespace(choices=[SimpleNamespace(message=message, finish_reason=finish_reason)])


def test_clients_of_openai_are_asked_in_their_own_way() -> None:
    asked: list[Any] = []

    def create(**arguments: Any) -> Any:
        asked.append(arguments)
        return completion("0.5")

    async def create_async(**arguments: Any) -> Any:
        return create(**arguments)

    for way in (create, create_async):
        answer = OpenAIChat(client(way), "big", request={"seed": 1}).complete("How good?")
        assert asyncio.run(answer) == "0.5"
    message = {"role": "user", "content": "How good?"}
    assert asked == [{"model": "big", "messages": [message], "seed": 1}] * 2


@pytest.mark.parametrize(
    ("content", "reason", "message"),
    [("0.", "length", "big gave an answer that was cut off"), (None, "tool_calls", "big gave no text")],
)
def test_their_answers_are_whole_texts(content: str | None, reason: str, message: str) -> None:
    model = OpenAIChat(client(lambda **arguments: completion(content, reason)), "big")
    with pytest.raises(JudgeError, match=message):
        asyncio.run(model.complete("How good?"))
