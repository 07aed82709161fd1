"""Rules about reset and step, whatever the autoreset mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import create_empty_array

from .compare import difference, same
from .vector_case import Case, Frame, NotCheckedError, dispose, is_in
from .vector_rules import rule

__all__ = ["RULES"]

_COLUMNS = (("rewards", np.float64), ("terminations", np.bool_), ("truncations", np.bool_))
_ARRAYS = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)
_OTHER_SEED = 1000


@rule(
    "A seeded rollout raises nothing.",
    remedy="let reset(seed=, options=) and step(actions) take what VectorEnv's take",
    rolls=False,
)
def _rollout(case: Case) -> Iterator[str]:
    """Roll out."""
    if not case.trace:
        yield "there was nothing to call"


@rule(
    "reset returns (observations, infos); step returns (observations, rewards, terminations, truncations,"
    " infos): float64, bool and bool arrays of shape (num_envs,), and a dict.",
    remedy="make new arrays of these types in each call",
)
def _results(case: Case) -> Iterator[str]:
    """Look at the types of all results."""
    for at, frame in enumerate(case.trace):
        size = 2 if frame.kind == "reset" else 5
        if not isinstance(frame.live, tuple) or len(frame.live) != size:
            yield f"call {at}: {frame.kind} returned {type(frame.live).__name__}, not a tuple of {size}"
            return
        if not isinstance(frame.result[-1], dict):
            yield f"call {at}: the infos are a {type(frame.result[-1]).__name__}, not a dict"
            return
        for (name, dtype), column in zip(_COLUMNS, frame.result[1:-1], strict=False):
            problem = _array_problem(column, dtype, (case.n,))
            if problem is not None:
                yield f"call {at}: {name} {problem}"
                return


@rule(
    "Observations are in observation_space, with its dtypes and shapes.",
    remedy="fill create_empty_array(single_observation_space, num_envs) by concatenate()",
)
def _observations(case: Case) -> Iterator[str]:
    """Look at all observations."""
    single = case.envs.single_observation_space
    for at, frame in enumerate(case.trace):
        problem = _layout_problem(frame.result[0], single, case.n, "observations")
        if problem is None and not is_in(case.envs.observation_space, frame.result[0]):
            problem = "observations are not in observation_space"
        if problem is not None:
            yield f"call {at} ({frame.kind}): {problem}"
            return


@rule(
    "The same seed gives the same episode; an int seed is seed + i in lane i; a list has one seed a lane.",
    remedy="give lane i seed + i, or the i-th of the list, and refuse a list of another length",
)
def _seeding(case: Case) -> Iterator[str]:
    """Reset by int and by list."""
    if getattr(case.envs.spec, "nondeterministic", False):
        raise NotCheckedError("its spec says that it is nondeterministic")
    if case.repeatable is not None:
        yield f"the same seed again: {case.repeatable}"
        return
    seeds = [case.seed + lane for lane in range(case.n)]
    text = difference(case.reset(seeds).result, case.trace[0].result, "result")
    if text is not None:
        yield f"reset(seed={seeds}) is not reset(seed={case.seed}): {text}"
    if not _refused(lambda: case.reset([*seeds, 0])):
        yield f"a list of {case.n + 1} seeds was taken for {case.n} lanes"


@rule(
    "options['reset_mask'] resets the lanes where it is true; the others keep observation and episode, and"
    " have no info.",
    remedy="leave the lanes outside the mask alone, and return their last observation",
)
def _reset_mask(case: Case) -> Iterator[str]:
    """Reset lane 0 in mid-episode and compare it and the others with what they would be."""
    if case.n < 2:
        raise NotCheckedError("it takes two lanes")
    case.require_repeatable()
    prefix, mask = case.prefix, np.arange(case.n) == 0
    actions = case.trace[len(prefix)].given
    case.repeat(prefix)
    going_on = case.lanes(case.step(actions))
    anew = [case.lanes(case.reset(case.seed + _OTHER_SEED))[0], case.lanes(case.step(actions))[0]]
    before = case.lanes(case.repeat(prefix)[-1])
    masked = case.lanes(case.reset(case.seed + _OTHER_SEED, {"reset_mask": mask}))
    after = case.lanes(case.step(actions))
    yield from _differences(masked[:1], anew[:1], "the reset lane")
    yield from _differences(after[:1], anew[1:], "the reset lane's next step")
    for lane in range(1, case.n):
        text = difference(masked[lane].observation, before[lane].observation, "observation")
        if text is not None:
            yield f"lane {lane}, outside the mask: {text}"
        if masked[lane].info:
            yield f"lane {lane}, outside the mask, has the info {masked[lane].info!r}"
    yield from _differences(after[1:], going_on[1:], "a step of the lanes outside the mask")


@rule(
    "A reset mask that is no bool array of shape (num_envs,) with a true item is refused.",
    remedy="raise TypeError or ValueError before any lane is reset",
)
def _mask_refusals(case: Case) -> Iterator[str]:
    """Try wrong masks."""
    n = case.n
    wrong: dict[str, Any] = {
        "a list": [True] * n,
        f"shape ({n + 1},)": np.ones(n + 1, np.bool_),
        "dtype int8": np.ones(n, np.int8),
        "no true item": np.zeros(n, np.bool_),
    }
    case.reset(case.seed)
    for name, mask in wrong.items():
        if not _refused(lambda mask=mask: case.reset(None, {"reset_mask": mask})):  # type: ignore[misc]
            yield f"a mask with {name} was taken" if "list" not in name else "a list was taken as mask"


@rule(
    "What a call returned does not change in later calls.",
    remedy="return copies, or new arrays in each call",
)
def _copies(case: Case) -> Iterator[str]:
    """Compare what was returned with what it was then."""
    if getattr(case.envs.unwrapped, "copy", True) is False:
        raise NotCheckedError("the env was made with copy=False")
    for at, frame in enumerate(case.trace):
        text = difference(frame.live, frame.result, "it")
        if text is not None:
            yield f"call {at}: the result changed afterwards: {text}"
            return


@rule(
    "The actions that step() is given stay as they are.",
    remedy="copy the actions before changing them",
)
def _actions(case: Case) -> Iterator[str]:
    """Compare the actions afterwards."""
    for at, frame in enumerate(case.trace):
        if frame.kind == "step" and not same(frame.passed, frame.given):
            yield f"call {at}: {difference(frame.passed, frame.given, 'the actions')} afterwards"
            return


@rule(
    "A batch of too few actions is refused, and nothing is stepped.",
    remedy="check the number of actions before the first lane is stepped",
)
def _missing_actions(case: Case) -> Iterator[str]:
    """Leave the last action out; then repeat the rollout's beginning."""
    if case.n < 2:
        raise NotCheckedError("it takes two lanes")
    case.require_repeatable()
    first = case.trace[:2]
    few = case.batch(case.actions(first[1].given)[:-1])
    original, case.envs = case.envs, case.fresh()
    try:
        case.reset(case.seed)
        if not _refused(lambda: case.step(few)):
            yield f"{case.n - 1} actions were taken for {case.n} lanes"
            return
        text = _repetition(case, first)
        if text is not None:
            yield f"reset and step after the refusal: {text}"
    finally:
        broken, case.envs = case.envs, original
        dispose(broken)


@rule(
    "With render mode rgb_array, render() returns a tuple of one uint8 array (height, width, 3) a lane.",
    remedy="return a tuple with the frame of each lane",
)
def _render(case: Case) -> Iterator[str]:
    """Draw once."""
    if case.envs.render_mode != "rgb_array":
        raise NotCheckedError("the env was not made with render_mode='rgb_array'")
    case.reset(case.seed)
    frames: Any = case.envs.render()
    if not isinstance(frames, tuple) or len(frames) != case.n:
        yield f"render() returned a {type(frames).__name__}, not a tuple of {case.n}"
        return
    for lane, frame in enumerate(frames):
        if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.shape[2:] != (3,):
            yield f"lane {lane}: the frame is no uint8 array (height, width, 3)"


def _refused(call: Callable[[], Frame]) -> bool:
    try:
        call()
    except Exception:
        return True
    return False


def _repetition(case: Case, frames: list[Frame]) -> str | None:
    """Return how a repetition of the calls fails or differs."""
    try:
        again = case.repeat(frames)
    except Exception as exc:
        return f"{type(exc).__name__}: {exc}"
    return difference([f.result for f in again], [f.result for f in frames], "results")


def _differences(ours: list[Any], theirs: list[Any], what: str) -> Iterator[str]:
    text = difference(ours, theirs, what)
    if text is not None:
        yield text


def _array_problem(column: Any, dtype: Any, shape: tuple[int, ...]) -> str | None:
    if not isinstance(column, np.ndarray):
        return f"are a {type(column).__name__}, not an array"
    if column.dtype != dtype or column.shape != shape:
        return f"are {column.dtype} of shape {column.shape}, not {np.dtype(dtype)} of shape {shape}"
    return None


def _layout_problem(value: Any, space: gym.Space[Any], n: int, path: str) -> str | None:
    """Return where ``value`` has another type, dtype or shape than ``n`` batched items of ``space`` have."""
    if isinstance(space, _ARRAYS):
        template: Any = create_empty_array(space, n=n, fn=np.zeros)
        problem = _array_problem(value, template.dtype, template.shape)
        return None if problem is None else f"{path} {problem}"
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict) or value.keys() != space.keys():
            return f"{path} are not a dict with the keys {list(space)}"
        parts = [(f"{path}[{key!r}]", value[key], space[key]) for key in space]
    else:
        size = len(space) if isinstance(space, spaces.Tuple) else n
        if not isinstance(value, tuple) or len(value) != size:
            return f"{path} are not a tuple of {size}"
        if not isinstance(space, spaces.Tuple):
            return None
        parts = [(f"{path}[{i}]", value[i], space[i]) for i in range(size)]
    return next((text for where, a, b in parts if (text := _layout_problem(a, b, n, where))), None)


RULES = (
    _rollout,
    _results,
    _observations,
    _seeding,
    _reset_mask,
    _mask_refusals,
    _copies,
    _actions,
    _missing_actions,
    _render,
)
