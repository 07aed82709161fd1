from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openenv_gym.wrappers.vector.masks import marks, seeds_of, take_mask


@pytest.mark.parametrize("marked", [False, True])
def test_marks_are_seen_in_both_forms(marked: bool) -> None:
    memory, found = marks(3, marked)
    assert (found.tolist(), found.dtype) == ([marked] * 3, np.bool_)
    found[:] = False
    assert 1 not in memory
    found |= np.array([False, False, True])
    assert 1 in memory and list(memory) == [0, 0, 1]


@pytest.mark.parametrize(
    ("seed", "due"),
    [
        (None, None),
        (7, [7, 8, 9]),
        (np.int64(7), [7, 8, 9]),
        ([1, None, 3], [1, None, 3]),
        ((1, 2, 3), [1, 2, 3]),
        (np.array([4, 5, 6]), [4, 5, 6]),
    ],
)
def test_seeds(seed: Any, due: Any) -> None:
    seeds = seeds_of(seed, 3)
    assert (None if seeds is None else list(seeds)) == due
    assert seeds is None or {type(each) for each in seeds} <= {int, type(None)}


def test_a_list_of_seeds_has_one_for_each_lane() -> None:
    with pytest.raises(ValueError, match="num_envs=3, and 2 were given"):
        seeds_of([1, 2], 3)


@pytest.mark.parametrize(
    ("seed", "says"),
    [
        (1.5, "seed is of type float; pass an int"),
        ("123", "seed is of type str"),
        ({1, 2, 3}, "seed is of type set"),
        ([1, "2", 3], r"seed\[1\] is of type str"),
        (np.array([1.0, 2.0, 3.0]), r"seed\[0\] is of type float64"),
    ],
)
def test_what_is_no_seed_is_refused(seed: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        seeds_of(seed, 3)


def test_options_are_a_dict() -> None:
    with pytest.raises(TypeError, match="options must be a dict or None, not list"):
        take_mask([1], 2)  # type: ignore[arg-type]


def test_the_mask_is_taken_out_and_the_options_of_the_caller_stay_as_they_are() -> None:
    mask = np.array([True, False])
    options = {"reset_mask": mask, "level": 3}
    rest, taken = take_mask(options, 2)
    assert rest == {"level": 3}
    assert taken is mask
    assert list(options) == ["reset_mask", "level"]
    assert take_mask({"reset_mask": mask}, 2)[0] == {}


def test_options_without_a_mask_are_copied() -> None:
    options = {"level": 3}
    rest, mask = take_mask(options, 2)
    assert rest == options and rest is not options
    assert mask is None
    assert take_mask(None, 2) == (None, None)


@pytest.mark.parametrize(
    ("mask", "kind", "says"),
    [
        ([True, False], TypeError, "must be a numpy array, not list"),
        (np.array([True]), ValueError, r"must have the shape \(2,\), not \(1,\)"),
        (np.array([1, 0]), TypeError, "must have dtype=np.bool_, not int64"),
        (np.array([False, False]), ValueError, "true for at least one lane"),
    ],
)
def test_what_is_no_mask_is_refused(mask: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        take_mask({"reset_mask": mask}, 2)
