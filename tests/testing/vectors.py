"""Vector environments that break one rule each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium.vector import SyncVectorEnv

from openenv_gym.testing import VectorEnvCheckError, VectorReport, check_vector_env

__all__ = ["GYMNASIUMS_OWN", "cartpole", "kept", "problems"]

#: The rules that SyncVectorEnv and VectorWrapper themselves break before Gymnasium 1.4.
GYMNASIUMS_OWN = ("garbage", "missing-actions", "own-metadata") if gym.__version__ < "1.4" else ()


def cartpole() -> gym.Env[Any, Any]:
    return gym.make("CartPole-v1", disable_env_checker=True)


def problems(
    cls: type[SyncVectorEnv],
    make: Callable[[], gym.Env[Any, Any]] = cartpole,
    **options: Any,
) -> dict[str, dict[str, str]]:
    """Return what the checker says of ``cls`` over three envs: rule -> mode -> first problem."""
    try:
        check_vector_env(lambda autoreset_mode: cls([make] * 3, autoreset_mode=autoreset_mode), **options)
    except VectorEnvCheckError as exc:
        found: dict[str, dict[str, str]] = {}
        for item in exc.report.violations:
            found.setdefault(item.rule, {}).setdefault(item.mode, str(item.problem))
        return found
    return {}


def kept(report: VectorReport) -> set[str]:
    return {finding.rule for finding in report.findings if report.outcome(finding.rule) == "kept"}
