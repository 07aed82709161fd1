"""Rules about the ends of episodes, in each autoreset mode, and about infos."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from ..lane_infos import mask_of
from .compare import difference, same
from .vector_case import Case, Frame, Mode, NotCheckedError, is_in, unordered
from .vector_rules import rule

__all__ = ["RULES"]

_PARTS = ("observations", "rewards", "terminations", "truncations", "infos")
_DRAWS = 20


@rule(
    "For each key of the infos there is an array with one item a lane, or a dict laid out the same way, and a"
    " bool mask _key; items where the mask is false are 0 or None.",
    remedy="build the infos with VectorEnv._add_info, or as it does",
)
def _infos(case: Case) -> Iterator[str]:
    """Look at all infos."""
    for at, frame in enumerate(case.trace):
        problem = next(_info_problems(frame.result[-1], case.n, "infos"), None)
        if problem is not None:
            yield f"call {at} ({frame.kind}): {problem}"
            return


def _info_problems(infos: Mapping[Any, Any], n: int, path: str) -> Iterator[str]:
    masks = {f"_{key}" for key in infos if f"_{key}" in infos}
    for key, column in infos.items():
        where = f"{path}[{key!r}]"
        if key in masks:
            if mask_of(infos, key[1:]) is None or column.shape != (n,):
                yield f"{where} is {column!r}, not a bool array of shape ({n},)"
        elif f"_{key}" not in infos:
            yield f"{where} has no mask {f'_{key}'!r}"
        elif isinstance(column, Mapping):
            yield from _info_problems(column, n, where)
        elif not isinstance(column, np.ndarray) or column.shape[:1] != (n,):
            yield f"{where} is a {type(column).__name__}, not an array of {n} items"
        else:
            mask = mask_of(infos, key)
            if mask is not None and any(_filled(column[lane]) for lane in np.flatnonzero(~mask)):
                yield f"{where} has values where its mask is false"


def _filled(item: Any) -> bool:
    return item is not None if not isinstance(item, np.ndarray | np.generic) else bool(np.any(item))


@rule(
    "An episode's end is handled as the autoreset mode says: NEXT_STEP resets in the next step, with reward 0"
    " and no flag; SAME_STEP puts final_obs and final_info into the infos; DISABLED does neither.",
    remedy="follow SyncVectorEnv.step()",
)
def _autoreset(case: Case) -> Iterator[str]:
    """Look at the ends of episodes in the rollout."""
    check = {Mode.NEXT_STEP: _next_step, Mode.SAME_STEP: _same_step, Mode.DISABLED: _disabled}
    if case.mode is None:
        raise NotCheckedError("metadata does not say the autoreset mode")
    first = case.end
    for at in range(first, len(case.trace)):
        problem = next(check[case.mode](case, at), None)
        if problem is not None:
            yield f"call {at}: {problem}"
            return


def _next_step(case: Case, at: int) -> Iterator[str]:
    frame, following = case.trace[at], case.trace[at + 1 : at + 2]
    yield from _without_final(frame)
    for lane in frame.ended if following else ():
        _, reward, terminated, truncated, _ = following[0].result
        if reward[lane] != 0 or terminated[lane] or truncated[lane]:
            got = f"reward {reward[lane]}, terminated {terminated[lane]}, truncated {truncated[lane]}"
            yield f"lane {lane} ended, and its next step, which should be a reset, has {got}"


def _same_step(case: Case, at: int) -> Iterator[str]:
    frame = case.trace[at]
    if frame.kind == "reset":
        return
    found = frame.result[-1]
    for name in ("final_obs", "final_info"):
        mask = mask_of(found, name)
        if not frame.ended and (mask is None or not mask.any()):
            continue
        if name not in found or mask is None:
            yield f"lanes {frame.ended} ended, and infos have no {name!r} with a mask"
        elif not same(mask, frame.done):
            yield f"infos['_{name}'] is {mask}, but the lanes that ended are {frame.ended}"
    yield from _final_problems(case, frame)


def _final_problems(case: Case, frame: Frame) -> Iterator[str]:
    final, info = frame.result[-1].get("final_obs"), frame.result[-1].get("final_info")
    if info is not None and not isinstance(info, Mapping):
        yield f"infos['final_info'] is a {type(info).__name__}, not a dict of arrays with masks"
    if final is None:
        return
    if not isinstance(final, np.ndarray) or final.dtype != object:
        yield "infos['final_obs'] is not an array of objects"
        return
    for lane in frame.ended:
        if not is_in(case.envs.single_observation_space, final[lane]):
            yield f"infos['final_obs'][{lane}] is not in single_observation_space"


def _disabled(case: Case, at: int) -> Iterator[str]:
    yield from _without_final(case.trace[at])


def _without_final(frame: Frame) -> Iterator[str]:
    found = [name for name in ("final_obs", "final_info") if name in frame.result[-1]]
    if found:
        yield f"infos have {found}, which belong to SAME_STEP; the observations are the final ones here"


@rule(
    "In NEXT_STEP the action of a lane that is reset does not matter.",
    remedy="reset a lane that ended instead of stepping it",
)
def _ignored_action(case: Case) -> Iterator[str]:
    """Repeat an end, and give the lane another action in the step that resets it."""
    if case.mode is not Mode.NEXT_STEP:
        raise NotCheckedError("the mode is not NEXT_STEP")
    if not case.samples:
        raise NotCheckedError("a policy chooses the actions")
    end = case.end
    case.require_repeatable()
    if end + 1 == len(case.trace):
        raise NotCheckedError("the first episode ended in the last step; raise steps=")
    others = case.actions(case.trace[end + 1].given)
    for lane in case.trace[end].ended:
        others[lane] = _another(case, others[lane])
    case.repeat(case.trace[: end + 1])
    text = difference(case.step(case.batch(others)).result, case.trace[end + 1].result, "the result")
    if text is not None:
        yield f"with another action in lanes {case.trace[end].ended}: {text}"


def _another(case: Case, action: Any) -> Any:
    space = copy.deepcopy(case.envs.single_action_space)
    space.seed(case.seed)
    for _ in range(_DRAWS):
        sample = space.sample()
        if not same(sample, action):
            return sample
    raise NotCheckedError("the action space seems to have one action only")


@rule(
    "A lane that the user reset after its episode's end is stepped by the next step, not reset again.",
    remedy="forget in reset() that the lane was to be reset",
)
def _explicit_reset(case: Case) -> Iterator[str]:
    """Reset after an end, all lanes and then by mask, and compare the step after it."""
    end = case.end
    case.require_repeatable()
    beginning, last = case.trace[:2], case.trace[end].ended[-1]
    case.repeat(case.trace[: end + 1])
    again = case.repeat(beginning)
    text = difference([frame.result for frame in again], [frame.result for frame in beginning], "results")
    if text is not None:
        yield f"reset(seed=) and step after an end: {text}"
    case.repeat(case.trace[: end + 1])
    try:
        # Up to the last lane that ended: some count seeds within the mask.
        case.reset(case.seed, {"reset_mask": np.arange(case.n) <= last})
    except Exception:
        case.renew()  # there are no masks, which is another rule's question
        return
    ours = case.lanes(case.step(beginning[1].given))[: last + 1]
    theirs = case.lanes(beginning[1])[: last + 1]
    text = difference(ours, theirs, "lanes")
    if text is not None:
        yield f"reset(seed=, options={{'reset_mask': ...}}) and step after an end: {text}"


@rule(
    "In DISABLED mode a step of a lane whose episode is over is refused.",
    remedy="remember terminations and truncations, and raise when such a lane is stepped",
)
def _finished_lanes(case: Case) -> Iterator[str]:
    """Step on after an end."""
    if case.mode is not Mode.DISABLED:
        raise NotCheckedError("the mode is not DISABLED")
    end = case.end
    case.require_repeatable()
    case.repeat(case.trace[: end + 1])
    try:
        case.step(case.trace[end].given)
    except Exception:
        case.renew()
        return
    yield f"lanes {case.trace[end].ended} have ended, and were stepped on"


@rule(
    "Results are those of SyncVectorEnv over the same environments, bit for bit.",
    remedy="compare the first difference with SyncVectorEnv",
)
def _reference(case: Case) -> Iterator[str]:
    """Make all calls of the rollout to a SyncVectorEnv."""
    if case.reference is None:
        raise NotCheckedError("nobody said what the lanes are; pass reference=")
    local = SyncVectorEnv(case.reference, autoreset_mode=case.mode or AutoresetMode.NEXT_STEP)
    try:
        for at, frame in enumerate(case.trace):
            text = _reference_difference(local, frame)
            if text is not None:
                yield f"call {at} ({frame.kind}): {text}"
                return
    finally:
        local.close()


def _reference_difference(local: SyncVectorEnv[Any, Any], frame: Frame) -> str | None:
    given = copy.deepcopy(frame.given)
    if frame.kind == "reset":
        expected: tuple[Any, ...] = local.reset(seed=given[0], options=given[1])
        names: tuple[str, ...] = (_PARTS[0], _PARTS[-1])
    else:
        expected, names = local.step(given), _PARTS
    columns = zip(names, frame.result, expected, strict=True)
    texts = (difference(unordered(ours), unordered(theirs), name) for name, ours, theirs in columns)
    return next((text for text in texts if text is not None), None)


RULES = (_infos, _autoreset, _ignored_action, _explicit_reset, _finished_lanes, _reference)
