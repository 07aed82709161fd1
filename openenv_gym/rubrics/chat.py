"""Models behind OpenAI-style endpoints (``POST /v1/chat/completions``)."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from inspect import isawaitable
from random import SystemRandom
from typing import Annotated, Any, Protocol
from urllib.parse import urlsplit

import msgspec

from ..errors import ConfigError, JudgeError
from .posting import Answer, in_thread, post

__all__ = ["ChatModel", "Completing", "OpenAIChat"]

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 8.0
_EXCERPT = 300
_PASSING = (408, 425, 429)

# Not the module's own generator: the environment may have seeded that one.
_RANDOM = SystemRandom()
_sleep = asyncio.sleep


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    """The part of a chat completion that is used (OpenAI API reference, "Create chat completion")."""

    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]


class _Failure(Exception):
    """One attempt gave no answer. ``passing``: another may."""

    def __init__(
        self, message: str, *, passing: bool, status: int | None = None, after: float | None = None
    ) -> None:
        super().__init__(message)
        self.passing = passing
        self.status = status
        self.after = after


class Completing(Protocol):
    """What :class:`.LLMJudge` needs of a client."""

    async def complete(self, prompt: str) -> str:
        """Return what the model answers to ``prompt``."""
        ...


class ChatModel:
    """A model behind an OpenAI-style endpoint.

    What may pass is tried again after a growing pause, or the one that ``Retry-After`` asks for: no
    connection, no answer in time, HTTP 408, 425, 429 and 5xx, an answer cut off or no chat completion.

    Args:
        base_url: Of the endpoint, such as ``http://127.0.0.1:8000/v1``; without a path, ``/v1`` is meant.
        model: Name of the model there.
        api_key_env: Environment variable with the key; ``None``: no key is sent. The key is read for each
            request, and never kept.
        request: Further fields of the request, such as ``{"temperature": 0, "max_tokens": 64}``.
        max_attempts: How often a question is sent at most.
        timeout: How long an attempt may take, in seconds.
        deadline: How long all of them may take together with the pauses, in seconds.

    Raises:
        ConfigError: An argument is impossible, or the environment variable is not set.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key_env: str | None = None,
        request: Mapping[str, Any] | None = None,
        max_attempts: int = 5,
        timeout: float = 60.0,
        deadline: float = 180.0,
    ) -> None:
        self.base_url = _checked_url(base_url)
        self.model = model
        self.api_key_env = api_key_env
        self.request = dict(request or {})
        self.max_attempts = max_attempts
        self.timeout = timeout
        self.deadline = deadline
        if max_attempts < 1 or not (timeout > 0 and deadline > 0):
            raise ConfigError("max_attempts, timeout and deadline have to be positive")
        self._headers()

    async def complete(self, prompt: str) -> str:
        """Return what the model answers to ``prompt``, sent as the only message of a user.

        Raises:
            JudgeError: There was no whole answer within the attempts and the deadline, or one that no other
                attempt would mend. ``details``: ``attempts``, ``status``.
        """
        end = time.monotonic() + self.deadline
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._attempt(prompt, end)
            except _Failure as exc:
                failure = exc
            pause = max(_pause(attempt), failure.after or 0.0)
            if not failure.passing or attempt >= self.max_attempts or time.monotonic() + pause >= end:
                raise self._error(failure, attempt, pause) from failure
            await _sleep(pause)

    async def _attempt(self, prompt: str, end: float) -> str:
        body = {"model": self.model, "messages": [{"role": "user", "content": prompt}], **self.request}
        left = max(0.001, min(self.timeout, end - time.monotonic()))
        url = f"{self.base_url}/chat/completions"
        try:
            async with asyncio.timeout(left):
                answer = await in_thread(post, url, self._headers(), json.dumps(body).encode(), left)
        except TimeoutError as exc:
            raise _Failure(f"did not answer within {left:.3g} s", passing=True) from exc
        except (OSError, HTTPException) as exc:
            reason = getattr(exc, "reason", None) or exc  # urllib wraps what the system said
            raise _Failure(f"could not be asked: {reason or type(exc).__name__}", passing=True) from exc
        return _text_of(answer)

    def _headers(self) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": "openenv-gym",
        }
        if self.api_key_env is not None:
            key = os.environ.get(self.api_key_env, "").strip()
            if not key or not key.isascii() or not key.isprintable():
                raise ConfigError(
                    f"the environment variable {self.api_key_env} has to hold the key for {self.base_url}, "
                    "in printable ASCII",
                    argument="api_key_env",
                )
            headers["Authorization"] = f"Bearer {key}"
        return headers

    def _error(self, failure: _Failure, attempts: int, pause: float) -> JudgeError:
        times = "once" if attempts == 1 else f"{attempts} times"
        why = ""
        if failure.passing and attempts < self.max_attempts:
            why = f"; the next attempt, {pause:.3g} s later, would miss the deadline of {self.deadline:.3g} s"
        return JudgeError(
            f"{self.model} at {self.base_url}, asked {times}, {failure}{why}",
            attempts=attempts,
            status=failure.status,
        )


class OpenAIChat:
    """A model behind a client of the ``openai`` package, which has timeouts and attempts of its own.

    Args:
        client: An ``AsyncOpenAI`` or ``OpenAI``.
        model: Name of the model.
        request: Further arguments of ``client.chat.completions.create``.
    """

    def __init__(self, client: Any, model: str, *, request: Mapping[str, Any] | None = None) -> None:
        self.client = client
        self.model = model
        self.request = dict(request or {})

    async def complete(self, prompt: str) -> str:
        """Return what the model answers to ``prompt``, sent as the only message of a user.

        Raises:
            JudgeError: The answer is cut off, or no text.
        """
        answer = await in_thread(self._create, prompt)
        if isawaitable(answer):
            answer = await answer
        choice = answer.choices[0]
        try:
            return _whole(choice.message.content, choice.finish_reason)
        except _Failure as failure:
            raise JudgeError(f"{self.model} {failure}", attempts=1) from failure

    def _create(self, prompt: str) -> Any:
        messages = [{"role": "user", "content": prompt}]
        return self.client.chat.completions.create(model=self.model, messages=messages, **self.request)


def _text_of(answer: Answer) -> str:
    if not 200 <= answer.status < 300:
        raise _Failure(
            f"answered with HTTP {answer.status}: {_excerpt(answer.body)}",
            passing=answer.status in _PASSING or answer.status >= 500,
            status=answer.status,
            after=_retry_after(answer.headers),
        )
    try:
        choice = msgspec.json.decode(answer.body, type=_Completion).choices[0]
    except (msgspec.DecodeError, RecursionError) as exc:
        message = f"answered with something else than a chat completion ({exc}): {_excerpt(answer.body)}"
        raise _Failure(message, passing=True, status=answer.status) from exc
    return _whole(choice.message.content, choice.finish_reason)


def _whole(content: str | None, finish_reason: str | None) -> str:
    if finish_reason == "length":
        raise _Failure("gave an answer that was cut off; a larger max_tokens may help", passing=True)
    if content is None:
        raise _Failure(f"gave no text (finish_reason {finish_reason!r})", passing=False)
    return content


def _pause(attempt: int) -> float:
    """Return the seconds to wait after an attempt: more each time, and not the same for everybody."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** (attempt - 1)) * _RANDOM.uniform(0.5, 1.0)


def _retry_after(headers: Message) -> float | None:
    """Return the seconds that ``Retry-After`` asks for: a number, or a date (RFC 9110, 10.2.3)."""
    text = (headers.get("Retry-After") or "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


def _checked_url(base_url: str) -> str:
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ConfigError(
            "base_url has to be http://HOST or https://HOST, without credentials", argument="base_url"
        )
    if parts.query or parts.fragment:
        raise ConfigError(f"base_url has to end with its path: {base_url!r}", argument="base_url")
    path = parts.path.rstrip("/") or "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}"


def _excerpt(body: bytes) -> str:
    text = body[:_EXCERPT].decode("utf-8", "replace")
    return repr(text) + ("..." if len(body) > _EXCERPT else "")
