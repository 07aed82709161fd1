from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from tests.support.testenvs import RenderEnv

from .vectors import cartpole, problems

Env = SyncVectorEnv
Change = Callable[..., Any]


def stepping(change: Callable[[list[Any]], None]) -> type[Env]:
    """Return a vector environment whose results of ``step`` are changed."""

    class Changed(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            result: list[Any] = list(super().step(actions))
            change(result)
            return tuple(result)

    return Changed


def replaced(place: int, make: Callable[[Any], Any]) -> Callable[[list[Any]], None]:
    def change(result: list[Any]) -> None:
        result[place] = make(result[place])

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda result: result.pop(), "call 1: step returned tuple, not a tuple of 5"),
        (replaced(4, lambda infos: [infos]), "call 1: the infos are a list, not a dict"),
        (replaced(1, lambda rewards: rewards.astype("f4")), "rewards are float32 of shape (3,), not float64"),
        (replaced(2, lambda flags: flags.astype("i1")), "terminations are int8 of shape (3,), not bool of"),
        (replaced(3, lambda flags: list(flags)), "truncations are a list, not an array"),
    ],
)
def test_results_have_their_types(change: Callable[[list[Any]], None], says: str) -> None:
    found = problems(stepping(change), steps=4)
    if "results" in found:
        assert says in found["results"]["NextStep"]
    else:  # the rollout itself cannot use it
        assert set(found) == {"rollout"}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda obs: obs.astype(np.float64), "observations are float64 of shape (3, 4), not float32"),
        (lambda obs: tuple(obs), "observations are a tuple, not an array"),
        (lambda obs: obs + np.float32(100), "observations are not in observation_space"),
    ],
)
def test_observations_are_in_their_space(make: Callable[[Any], Any], says: str) -> None:
    found = problems(stepping(replaced(0, make)), steps=4)
    assert found["observations"]["NextStep"].startswith(f"call 1 (step): {says}")


def test_seeds_count_up() -> None:
    class Same(SyncVectorEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return super().reset(seed=[seed] * 3 if isinstance(seed, int) else seed, options=options)

    assert "reset(seed=[0, 1, 2]) is not reset(seed=0)" in problems(Same, steps=4)["seeding"]["SameStep"]


def test_seeds_count() -> None:
    class Unseeded(SyncVectorEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return super().reset(options=options)

    found = problems(Unseeded, steps=4)
    assert found["seeding"]["SameStep"].startswith("the same seed again: call 0 (reset): result[0]")
    # What rests on repetition is left open, but for the comparison with the reference.
    assert set(found) == {"seeding", "reference"}


def test_lists_of_seeds_have_their_length() -> None:
    class Lenient(SyncVectorEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return super().reset(seed=seed[:3] if isinstance(seed, list) else seed, options=options)

    assert problems(Lenient, steps=4)["seeding"]["Disabled"] == "a list of 4 seeds was taken for 3 lanes"


def test_masked_resets_leave_the_others_alone() -> None:
    class Everyone(SyncVectorEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return super().reset(seed=seed)

    found = problems(Everyone, steps=4)
    assert found["reset-mask"]["NextStep"].startswith("lane 1, outside the mask: observation[0] is")
    assert found["mask-refusals"]["NextStep"] == "a list was taken as mask"


def test_masked_resets_reset_their_lanes() -> None:
    class Nobody(SyncVectorEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            if options is None:
                return super().reset(seed=seed)
            return self._observations, {"x": np.ones(3), "_x": np.ones(3, np.bool_)}

    found = problems(Nobody, steps=4, skip=["reference"])
    assert found["reset-mask"]["NextStep"].startswith("the reset lane[0].observation[0] is")


def test_lanes_outside_the_mask_have_no_info() -> None:
    class Chatty(SyncVectorEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            observations, _ = super().reset(seed=seed, options=options)
            return observations, {"x": np.ones(3), "_x": np.ones(3, np.bool_)}

    found = problems(Chatty, steps=4, skip=["reference"])
    assert found["reset-mask"]["NextStep"] == "lane 1, outside the mask, has the info {'x': np.float64(1.0)}"


def test_results_stay_as_they_were() -> None:
    class Reusing(SyncVectorEnv):
        def __init__(self, env_fns: Any, **options: Any) -> None:
            super().__init__(env_fns, copy=False, **options)
            self.copy = True  # which it says, and does not do

        def _reused(self, result: Any) -> Any:
            return (self._observations, *result[1:])

        def reset(self, **kwargs: Any) -> Any:
            return self._reused(super().reset(**kwargs))

        def step(self, actions: Any) -> Any:
            return self._reused(super().step(actions))

    found = problems(Reusing, steps=4)
    assert set(found) == {"copies"}
    assert found["copies"]["NextStep"].startswith("call 1: the result changed afterwards: it[0][0, 0] is")


def test_buffers_may_be_handed_out_on_demand() -> None:
    class Buffers(SyncVectorEnv):
        def __init__(self, env_fns: Any, **options: Any) -> None:
            super().__init__(env_fns, copy=False, **options)

    assert problems(Buffers, steps=4) == {}


def test_actions_are_left_alone() -> None:
    class Clearing(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            result = super().step(actions)
            actions[:] = 7
            return result

    found = problems(Clearing, steps=4)
    assert "the actions[" in found["actions"]["NextStep"]


def test_missing_actions_are_refused() -> None:
    class Filling(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            return super().step(np.resize(actions, 3))

    assert problems(Filling, steps=4)["missing-actions"]["NextStep"] == "2 actions were taken for 3 lanes"


def test_a_refusal_changes_nothing() -> None:
    class Counting(SyncVectorEnv):
        refused = 0

        def step(self, actions: Any) -> Any:
            if len(actions) < 3:
                self.refused += 1
                raise ValueError("too few")
            return super().step(actions[::-1] if self.refused else actions)

    found = problems(Counting, steps=4)
    assert found["missing-actions"]["NextStep"].startswith("reset and step after the refusal: results[1][0]")


@pytest.mark.parametrize(
    ("frames", "says"),
    [
        ([np.zeros((2, 2, 3), np.uint8)] * 3, "render() returned a list, not a tuple of 3"),
        ((np.zeros((2, 2, 3)),) * 3, "lane 0: the frame is no uint8 array (height, width, 3)"),
        ((np.zeros((2, 2), np.uint8),) * 3, "lane 0: the frame is no uint8 array (height, width, 3)"),
    ],
)
def test_frames_are_pictures(frames: Any, says: str) -> None:
    class Drawing(SyncVectorEnv):
        def render(self) -> Any:
            return frames

    found = problems(Drawing, lambda: RenderEnv("rgb_array"), steps=2)
    assert found == {"render": dict.fromkeys(["NextStep", "SameStep", "Disabled"], says)}


def test_nothing_is_said_of_what_is_right() -> None:
    assert problems(SyncVectorEnv, cartpole, steps=60) == {}
