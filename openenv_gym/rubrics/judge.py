"""A rubric that asks a language model."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from ..errors import ConfigError, JudgeError
from ..models import Action
from ..structs import to_map
from .answers import find_score
from .base import Rubric, finite_setting
from .chat import ChatModel, Completing, OpenAIChat

__all__ = ["LLMJudge"]

_FIELD = re.compile(r"(action|observation)(\.[A-Za-z]\w*|\[\w+\])*")
_EXCERPT = 300


class LLMJudge(Rubric):
    """Asks a model for the score. A model that gives none is an error, never a score.

    Subclasses may override ``_render_prompt(action, observation)`` and ``_parse_score(answer)``.

    Args:
        prompt_template: A format string with the fields ``{action}`` and ``{observation}``, or parts of them
            such as ``{action.message}``. Braces that are no fields are doubled. Fields in what is filled in
            mean nothing. Structs are written as JSON, without metadata.
        client: An object with ``async complete(prompt) -> str``, such as a :class:`.ChatModel`; or an
            ``AsyncOpenAI`` or ``OpenAI`` of the ``openai`` package, with ``model``.
        base_url, model, api_key_env, request: Instead of ``client``; see :class:`.ChatModel`.
        score_pattern: Regular expression; the score is its first match in the answer, or the first group of
            that. Default: the ``"score"`` of the JSON object in the answer, or the only number there is.
        default_score: Score when an answer has none; ``None``: that is an error. No answer always is one.
        score_range: Lowest and highest score that the model may give; another is as good as none.
        normalize: Map that range onto 0 to 1.

    Raises:
        ConfigError: An argument is impossible, or one of those that go together is missing.
    """

    settings: ClassVar[tuple[str, ...]] = (
        "prompt_template",
        "score_pattern",
        "default_score",
        "score_range",
        "normalize",
    )

    def __init__(
        self,
        prompt_template: str,
        client: Any = None,
        *,
        base_url: str | None = None,
        model: str | None = None,
        api_key_env: str | None = None,
        request: Mapping[str, Any] | None = None,
        score_pattern: str | None = None,
        default_score: float | None = None,
        score_range: tuple[float, float] = (0.0, 1.0),
        normalize: bool = True,
    ) -> None:
        self.prompt_template = prompt_template
        self.score_pattern = score_pattern
        self.default_score = default_score
        self.score_range = score_range
        self.normalize = normalize
        self._client = _client(client, base_url, model, api_key_env, request)

    @property
    def prompt_template(self) -> str:
        """The prompt, with fields."""
        return self._prompt_template

    @prompt_template.setter
    def prompt_template(self, template: str) -> None:
        _check_template(template)
        self._prompt_template = template

    @property
    def score_pattern(self) -> str | None:
        """Regular expression for the score."""
        return None if self._pattern is None else self._pattern.pattern

    @score_pattern.setter
    def score_pattern(self, pattern: str | None) -> None:
        try:
            self._pattern = None if pattern is None else re.compile(pattern)
        except re.error as exc:
            raise ConfigError(f"score_pattern {pattern!r}: {exc}", argument="score_pattern") from exc

    @property
    def default_score(self) -> float | None:
        """Score when an answer has none."""
        return self._default_score

    @default_score.setter
    def default_score(self, value: float | None) -> None:
        self._default_score = None if value is None else finite_setting("default_score", value)

    @property
    def score_range(self) -> tuple[float, float]:
        """Lowest and highest score that the model may give."""
        return self._score_range

    @score_range.setter
    def score_range(self, value: Sequence[float]) -> None:
        ends = [finite_setting("score_range", end) for end in value]
        if len(ends) != 2 or not ends[0] < ends[1]:
            raise ConfigError(
                f"score_range has to be (lowest, highest), not {value!r}", argument="score_range"
            )
        self._score_range = (ends[0], ends[1])

    async def forward(self, action: Any, observation: Any) -> float:
        """Ask the model, and return the score in its answer.

        Raises:
            JudgeError: The model could not be asked, or its answer has no score. ``details``: ``attempts``,
                ``status`` (of HTTP) or ``answer``.
        """
        prompt = self._render_prompt(action, observation)
        try:
            answer: Any = await self._client.complete(prompt)
        except JudgeError as exc:
            exc.details.setdefault("rubric", self._label)
            raise
        except Exception as exc:
            status = getattr(exc, "status_code", None)
            message = f"{self._label} could not ask its model: {type(exc).__name__}: {exc}"
            raise JudgeError(message, rubric=self._label, status=status) from exc
        if not isinstance(answer, str):
            message = f"the client of {self._label} answered with {type(answer).__name__}, not with a text"
            raise JudgeError(message, rubric=self._label)
        return self._parse_score(answer)

    def _render_prompt(self, action: Any, observation: Any) -> str:
        return _FORMATTER.format(self.prompt_template, action=action, observation=observation)

    def _parse_score(self, answer: str) -> float:
        low, high = self.score_range
        try:
            score = find_score(answer, self._pattern)
            if not low <= score <= high:
                raise ValueError(f"{score} is not between {low} and {high}")
        except ValueError as exc:
            if self.default_score is not None:
                return self.default_score
            message = f"the answer to {self._label} has no score: {exc}: {answer[:_EXCERPT]!r}"
            raise JudgeError(message, rubric=self._label, answer=answer[:_EXCERPT]) from exc
        return (score - low) / (high - low) if self.normalize else score


class _PromptFormatter(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> Any:
        return format(value, format_spec) if format_spec else _as_text(value)


_FORMATTER = _PromptFormatter()


def _as_text(value: Any) -> str:
    if not isinstance(value, msgspec.Struct):
        return str(value)
    without = ("metadata",) if isinstance(value, Action) else None
    return json.dumps(to_map(value, json=True, exclude=without), ensure_ascii=False)


def _check_template(template: str) -> None:
    try:
        fields = list(string.Formatter().parse(template))
    except ValueError as exc:
        message = f"prompt_template: {exc}; a brace that is no field is written twice"
        raise ConfigError(message, argument="prompt_template") from exc
    for _, name, spec, _ in fields:
        if name is not None and (not _FIELD.fullmatch(name) or "{" in (spec or "")):
            message = (
                f"prompt_template has the field {{{name}}}; there are {{action}}, {{observation}} and parts "
            )
            message += "of them. A brace that is no field is written twice"
            raise ConfigError(message, argument="prompt_template")


def _client(
    client: Any,
    base_url: str | None,
    model: str | None,
    api_key_env: str | None,
    request: Mapping[str, Any] | None,
) -> Completing:
    if client is None:
        if base_url is None or model is None:
            raise ConfigError("LLMJudge needs a client, or base_url and model")
        return ChatModel(base_url, model, api_key_env=api_key_env, request=request)
    if base_url is not None or api_key_env is not None:
        raise ConfigError("base_url and api_key_env are the client's business if there is one")
    if hasattr(client, "complete"):
        if model is not None or request is not None:
            raise ConfigError("model and request are the client's business; only an openai client needs them")
        return client  # type: ignore[no-any-return]
    if not hasattr(client, "chat"):
        kind = type(client).__name__
        raise ConfigError(f"client has to have complete(prompt), or be a client of openai, not {kind}")
    if model is None:
        raise ConfigError("a client of openai needs a model beside it", argument="model")
    return OpenAIChat(client, model, request=request)
