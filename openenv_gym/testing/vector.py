"""Whether a vector environment keeps the contract of ``gymnasium.vector.VectorEnv``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.vector import VectorEnv

from ..errors import ConfigError
from . import vector_calls, vector_episodes, vector_surface, vector_wrappers
from .vector_case import Case, Mode, NotCheckedError, Policy, dispose
from .vector_rules import Rule

__all__ = ["RULES", "Finding", "VectorEnvCheckError", "VectorReport", "check_vector_env"]

_Envs = VectorEnv[Any, Any, Any]
_WANTED = "pass a gymnasium.vector.VectorEnv, such as gym.make_vec gives, or a function that makes one"

#: The sentences of the contract that are checked, in order.
RULES: tuple[Rule, ...] = (
    *vector_surface.RULES[:-2],
    *vector_calls.RULES,
    *vector_episodes.RULES,
    *vector_wrappers.RULES,
    *vector_surface.RULES[-2:],
)


class Finding(NamedTuple):
    """What was found about one rule in one autoreset mode.

    Attributes:
        rule: The rule's name.
        mode: The autoreset mode; ``"-"``: the env does not say.
        problem: How the rule is violated; ``None``: it is not.
        unchecked: Why nobody can tell; ``None``: the rule was checked.
    """

    rule: str
    mode: str
    problem: str | None = None
    unchecked: str | None = None


class VectorReport(NamedTuple):
    """What :func:`check_vector_env` found.

    Attributes:
        subject: What was checked.
        findings: One for each rule, mode and problem.
    """

    subject: str
    findings: tuple[Finding, ...]

    @property
    def violations(self) -> tuple[Finding, ...]:
        """Return the findings that are problems."""
        return tuple(finding for finding in self.findings if finding.problem is not None)

    @property
    def modes(self) -> tuple[str, ...]:
        """Return the autoreset modes that were checked."""
        return tuple(dict.fromkeys(finding.mode for finding in self.findings))

    def outcome(self, rule: str) -> str:
        """Return ``"violated"`` (in some mode), ``"kept"``, or ``"not checked"`` (in any)."""
        findings = [finding for finding in self.findings if finding.rule == rule]
        if any(finding.problem is not None for finding in findings):
            return "violated"
        return "kept" if any(finding.unchecked is None for finding in findings) else "not checked"

    def __str__(self) -> str:
        return "\n".join([self.subject, *self._lines()])

    def _lines(self) -> Iterator[str]:
        for rule in RULES:
            yield f"  {rule.name}: {self.outcome(rule.name)}"
            for finding in self.findings:
                text = finding.problem or finding.unchecked
                if finding.rule == rule.name and text is not None:
                    yield f"      [{finding.mode}] {text}"


class VectorEnvCheckError(AssertionError):
    """A vector environment violates rules. ``report`` has all that was found; the text the violations."""

    def __init__(self, report: VectorReport) -> None:
        self.report = report
        broken = [rule for rule in RULES if report.outcome(rule.name) == "violated"]
        lines = [f"{report.subject} violates {len(broken)} of {len(RULES)} rules:"]
        for rule in broken:
            lines += [f"{rule.name}: {rule.text}"]
            lines += [
                f"    [{item.mode}] {item.problem}" for item in report.violations if item.rule == rule.name
            ]
            lines += [f"    -> {rule.remedy}"]
        super().__init__("\n".join(lines))


def check_vector_env(
    envs: _Envs | Callable[..., _Envs],
    *,
    steps: int = 250,
    seed: int = 0,
    policy: Policy | None = None,
    reference: Callable[[], gym.Env[Any, Any]] | None = None,
    skip: Collection[str] = (),
) -> VectorReport:
    """Check that a vector environment keeps the contract of ``gymnasium.vector.VectorEnv``.

    Works with the vector environments of any library. Given a function that makes the env, everything is
    checked, in each autoreset mode if the function has a parameter ``autoreset_mode`` (it gets
    ``"NextStep"``, ``"SameStep"``, ``"Disabled"``; a mode that it raises for is not checked). Given an env,
    it is checked in its mode, stays open, and what takes a second env is left out.

    ::

        check_vector_env(gym.make_vec("remote/CartPole-v1", num_envs=4))
        check_vector_env(lambda autoreset_mode: MyVectorEnv(3, autoreset_mode), reference=MyEnv)

    Args:
        envs: The env, or a function that makes one. Two lanes or more; with one some rules cannot be checked.
        steps: Length of the rollout in each mode; some episodes should end in it.
        seed: Of the rollout and its actions.
        policy: Chooses the batch of actions from observations and infos; ``None``: seeded samples.
        reference: Makes the environment that runs in each lane; then results are compared with
            ``SyncVectorEnv``'s, bit for bit. ``None``: the ``env_fns`` of the env, if it has any.
        skip: Names of rules to leave out.

    Returns:
        What was found: every rule that can be checked is kept.

    Raises:
        VectorEnvCheckError: Rules are violated; the message lists them all, with what to do.
        ConfigError: ``skip`` names no rule, ``steps`` is not positive, or there is no vector environment.
        Exception: The function makes no env in any mode.
    """
    unknown = set(skip) - {rule.name for rule in RULES}
    if unknown:
        raise ConfigError(f"skip has {sorted(unknown)}; the rules are {[rule.name for rule in RULES]}")
    if steps < 1:
        raise ConfigError(f"steps is {steps}; a rollout takes at least one")
    rules = [rule for rule in RULES if rule.name not in skip]
    options = {"seed": seed, "steps": steps, "policy": policy}
    findings: list[Finding] = []
    subject = ""
    for case in _cases(envs, reference, options, findings):
        subject = subject or repr(case.envs)
        try:
            findings += _examine(case, rules)
        finally:
            if case.make is not None:
                dispose(case.envs)
    report = VectorReport(subject, tuple(findings))
    if report.violations:
        raise VectorEnvCheckError(report)
    return report


def _cases(
    envs: _Envs | Callable[..., _Envs],
    reference: Callable[[], Any] | None,
    options: dict[str, Any],
    findings: list[Finding],
) -> Iterator[Case]:
    """Yield a case for each mode; note in ``findings`` which modes there are not."""
    if isinstance(envs, VectorEnv):
        yield Case(envs, reference=_lanes(envs, reference), **options)
        return
    if not callable(envs):
        raise ConfigError(f"envs is a {type(envs).__name__}; {_WANTED}")
    if "autoreset_mode" not in inspect.signature(envs).parameters:
        made = _vector(envs())
        yield Case(made, make=envs, reference=_lanes(made, reference), **options)
        return
    makers = {mode: partial(envs, autoreset_mode=mode.value) for mode in Mode}
    refused = 0
    for mode, make in makers.items():
        try:
            made = make()
        except Exception as exc:
            refused += 1
            if refused == len(makers):
                raise
            why = f"the mode is refused: {type(exc).__name__}: {exc}"
            findings.append(Finding("asked-mode", mode.value, unchecked=why))
            continue
        _vector(made)
        other = makers[Mode.NEXT_STEP if mode is Mode.SAME_STEP else Mode.SAME_STEP]
        lanes = _lanes(made, reference)
        yield Case(made, make=make, make_other=other, asked=mode, reference=lanes, **options)


def _vector(made: Any) -> _Envs:
    if not isinstance(made, VectorEnv):
        raise ConfigError(f"the function made a {type(made).__name__}; {_WANTED}")
    return made


def _lanes(envs: _Envs, reference: Callable[[], Any] | None) -> Sequence[Callable[[], Any]] | None:
    if reference is not None:
        return [reference] * envs.num_envs
    if getattr(envs.unwrapped, "observation_mode", "same") != "same":
        return None
    return getattr(envs.unwrapped, "env_fns", None)


def _examine(case: Case, rules: Sequence[Rule]) -> list[Finding]:
    findings: list[Finding] = []
    rolls = True
    mode = "-" if case.mode is None else case.mode.value
    for rule in rules:
        if rule.rolls and not rolls:
            findings.append(Finding(rule.name, mode, unchecked="the rollout failed"))
            continue
        found = _check(case, rule, mode)
        rolls = rolls and (rule.name != "rollout" or found[0].problem is None)
        findings += found
    return findings


def _check(case: Case, rule: Rule, mode: str) -> list[Finding]:
    case.settle()
    try:
        problems = list(rule.check(case))
    except NotCheckedError as exc:
        return [Finding(rule.name, mode, unchecked=str(exc))]
    except Exception as exc:
        case.renew()
        return [Finding(rule.name, mode, f"raised {type(exc).__name__}: {str(exc).partition(chr(10))[0]}")]
    return [Finding(rule.name, mode, problem) for problem in problems] or [Finding(rule.name, mode)]
