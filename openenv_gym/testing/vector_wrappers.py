"""Rules about Gymnasium's own wrappers on a vector environment."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.wrappers import vector as wrappers

from ..lane_infos import lane_info
from .compare import difference
from .vector_case import Case, Mode, unordered
from .vector_rules import rule

__all__ = ["RULES"]

_Envs = VectorEnv[Any, Any, Any]
#: Under this key, as environments have infos of their own called "episode".
_STATISTICS = "episode statistics"
_FEW = 20


@rule(
    "Gymnasium's vector wrappers run on the env: RecordEpisodeStatistics, DictInfoToList, ClipReward and,"
    " where they apply, NormalizeObservation and RescaleAction.",
    remedy="return what VectorEnv's methods return; the difference is named",
)
def _wrapping(case: Case) -> Iterator[str]:
    """Repeat the rollout's beginning under each wrapper."""
    for name, wrap in _wrappers(case):
        case.settle()
        try:
            with np.errstate(all="ignore"):  # the space may be wider than its dtype can square
                _repeat(case, wrap(case.envs), _FEW)
        except Exception as exc:
            yield f"{name}: {type(exc).__name__}: {exc}"


@rule(
    "RecordEpisodeStatistics counts the rewards and steps of each episode.",
    remedy="metadata['autoreset_mode'] must be what step() does",
)
def _statistics(case: Case) -> Iterator[str]:
    """Compare with sums over the rollout."""
    case.require_repeatable()
    upto = case.end + 1
    ended = case.trace[upto - 1].ended
    expected = [(sum(_rewards(case, upto, lane)), len(_rewards(case, upto, lane))) for lane in ended]
    envs = _record_statistics(case.envs)
    infos = _repeat(case, envs, upto)[-1]
    for lane, (total, length) in zip(ended, expected, strict=True):
        found = infos[_STATISTICS]
        if not np.isclose(found["r"][lane], total) or found["l"][lane] != length:
            got = f"return {found['r'][lane]}, length {found['l'][lane]}"
            yield f"lane {lane}: {got}, not {total} and {length}"


@rule(
    "DictInfoToList gives each lane its own infos.",
    remedy="lay the infos out as VectorEnv._add_info does",
)
def _lists(case: Case) -> Iterator[str]:
    """Compare the lists with the masks."""
    case.require_repeatable()
    envs = wrappers.DictInfoToList(case.envs)
    for at, (frame, found) in enumerate(zip(case.trace, _repeat(case, envs, 2), strict=False)):
        expected = [lane_info(frame.result[-1], lane) for lane in range(case.n)]
        text = difference([*map(_public, found)], [*map(_public, expected)], "infos")
        if text is not None:
            yield f"call {at}: {text}"


@rule(
    "A wrapper that is thrown away leaves the env open.",
    remedy="close nothing in __del__ that others may hold",
)
def _garbage(case: Case) -> Iterator[str]:
    """Throw a wrapper away."""
    wrapper: VectorWrapper[Any, Any, Any, Any, Any] | None = VectorWrapper(case.envs)
    del wrapper
    if case.envs.closed:
        yield "the env is closed afterwards"
    case.repeat(case.trace[:2])


def _wrappers(case: Case) -> Iterator[tuple[str, Callable[[_Envs], _Envs]]]:
    yield "RecordEpisodeStatistics", _record_statistics
    yield "DictInfoToList", wrappers.DictInfoToList
    yield "ClipReward", _clip_reward
    single, action = case.envs.single_observation_space, case.envs.single_action_space
    if case.mode is Mode.NEXT_STEP and isinstance(single, gym.spaces.Box) and single.dtype.kind == "f":
        yield "NormalizeObservation", wrappers.NormalizeObservation
    if isinstance(action, gym.spaces.Box) and action.dtype.kind == "f" and action.is_bounded():
        yield "RescaleAction", _rescale_action


def _record_statistics(envs: _Envs) -> _Envs:
    return wrappers.RecordEpisodeStatistics(envs, stats_key=_STATISTICS)


def _clip_reward(envs: _Envs) -> _Envs:
    return wrappers.ClipReward(envs, -1.0, 1.0)


def _rescale_action(envs: _Envs) -> _Envs:
    single: Any = envs.single_action_space
    return wrappers.RescaleAction(envs, single.low, single.high)


def _repeat(case: Case, envs: _Envs, upto: int) -> list[Any]:
    """Make the first calls of the rollout to a wrapper; return the infos."""
    case.over = True  # as far as is known
    infos = []
    for frame in case.trace[:upto]:
        given = copy.deepcopy(frame.given)
        if frame.kind == "reset":
            result: Any = envs.reset(seed=given[0], options=given[1])
        else:
            result = envs.step(given)
        infos.append(result[-1])
    return infos


def _rewards(case: Case, upto: int, lane: int) -> list[float]:
    """Return the rewards of the lane up to its first end."""
    return [float(frame.result[1][lane]) for frame in case.trace[1:upto] if frame.kind == "step"]


def _public(info: Any) -> Any:
    """Return infos in one order, without the keys that DictInfoToList takes for masks."""
    if not isinstance(info, dict):
        return info
    return unordered({key: _public(item) for key, item in info.items() if not str(key).startswith("_")})


RULES = (_wrapping, _statistics, _lists, _garbage)
