"""Arrays of maps, out of arrays and lists."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import numpy as np
import pytest

from openenv_gym.errors import ValidationError, ValueNotCarriedError
from openenv_gym.models import Array
from openenv_gym.structs.arrays import exactness, is_finite, is_numpy, numpy_array, plain_numpy, shape_fits
from openenv_gym.structs.hints import kind_of
from openenv_gym.structs.kinds import Numpy
from openenv_gym.testing.compare import same


@pytest.mark.parametrize(
    ("spec", "data", "array"),
    [
        (Array("uint8", (2,)), [0, 255], np.array([0, 255], np.uint8)),
        (Array("float32", (2,)), [1, "NaN"], np.array([1, np.nan], np.float32)),
        (Array("float64", ()), "-Infinity", np.array(-np.inf)),
        (Array("float64", ()), 1, np.array(1.0)),
        (Array("int64", ()), np.int32(3), np.array(3)),
        (Array("bool", (1, 1)), [[True]], np.array([[True]])),
        (Array("float32", (-1, 2)), [[1, 2]], np.array([[1, 2]], np.float32)),
        (Array("float32", (-1, 2)), [], np.zeros((0, 2), np.float32)),
        (Array("float32", (-1, 2, -1)), [], np.zeros((0, 2, 0), np.float32)),
        (Array("float32", (2, -1)), [[], []], np.zeros((2, 0), np.float32)),
        (Array("float64", (2,)), np.array([1, 2], np.float32), np.array([1.0, 2.0])),
        (Array("int16", (1,)), np.array([7], ">i2"), np.array([7], np.int16)),
        (Array("int16", (1,)), (7,), np.array([7], np.int16)),
        (Array("uint64", (1,)), [2**64 - 1], np.array([2**64 - 1], np.uint64)),
        (Array("float32", (1,), low=0, high=1), [0.5], np.array([0.5], np.float32)),
        (None, [[1.5, 2]], np.array([[1.5, 2]])),
    ],
)
def test_arrays_are_made_of_what_stands_for_them(spec: Array | None, data: Any, array: Any) -> None:
    assert same(numpy_array(Numpy(spec), data, "$"), array)


def test_an_array_of_the_right_kind_is_not_copied() -> None:
    array = np.zeros(3, np.float32)
    assert numpy_array(Numpy(Array("float32", (3,))), array, "$") is array


@pytest.mark.parametrize(
    ("spec", "data", "found"),
    [
        (Array("uint8", (2,)), [0, 256], "numbers from 0 to 256"),
        (Array("uint8", (1,)), [-1], "numbers from -1 to -1"),
        (Array("uint8", (1,)), [1.0], "'1.0' in it"),
        (Array("uint8", (1,)), [True], "'True' in it"),
        (Array("float32", (1,)), ["1"], "'1' in it"),
        (Array("float32", (1,)), [None], "'None' in it"),
        (Array("bool", (1,)), [1], "'1' in it"),
        (Array("float32", (2, 2)), [[1, 2], [3]], "unequal lengths"),
        (Array("float64", (1,)), [10**400], "too large"),
        (Array("float32", (1,)), [1e300], "too large"),
        (Array("float32", (2,)), [1], "shape (1,)"),
        (Array("float32", (2,)), np.zeros(2), "an array of float64"),
        (Array("int64", (2,)), np.zeros(2, np.uint64), "an array of uint64"),
        (Array("float32", (1,), low=0), [-1], "numbers out of its bounds"),
        (Array("float32", (1,), low=0), ["NaN"], "numbers out of its bounds"),
        (Array("float32", (1,), high=1), [2], "numbers out of its bounds"),
    ],
)
def test_anything_else_is_refused(spec: Array, data: Any, found: str) -> None:
    with pytest.raises(ValidationError) as caught:
        numpy_array(Numpy(spec), data, "$.here")
    assert str(caught.value).startswith(f"$.here: expected an array of {spec.dtype}, shape {spec.shape}")
    assert found in str(caught.value)


def test_lists_of_unequal_lengths_are_no_array() -> None:
    with pytest.raises(ValidationError, match="unequal lengths"):
        numpy_array(Numpy(None), [[1], [1, 2]], "$")


def test_shapes_may_be_open() -> None:
    assert shape_fits((2, 3), (-1, 3))
    assert not shape_fits((2, 3), (2,))
    assert not shape_fits((2, 3), (-1, 4))


def test_arrays_of_plain_numbers_are_told_from_others() -> None:
    assert all(map(is_finite, (np.zeros(2), np.array([True]), np.uint8(1), np.zeros((0, 3)))))
    assert not any(
        map(is_finite, (np.array([1, np.nan]), np.float32("inf"), np.array("a"), np.zeros(1, complex)))
    )


def test_numpy_is_told_from_the_rest() -> None:
    assert all(map(is_numpy, (np.zeros(1), np.float32(1), np.str_("a"))))
    assert not any(map(is_numpy, (1, [1], None, int)))
    assert plain_numpy(np.array([[1, 2]]), "$") == [[1, 2]]
    with pytest.raises(
        ValueNotCarriedError, match=r"^\$\.a has no form in JSON: an array of dtype complex64"
    ):
        plain_numpy(np.zeros(1, np.complex64), "$.a")


class _Pixels(msgspec.Struct):
    image: Annotated[np.ndarray, Array("uint8", (2, 2))]
    speed: Annotated[np.ndarray, Array("float32", (3,))]
    name: str = ""


IMAGE, SPEED = np.zeros((2, 2), np.uint8), np.zeros(3, np.float32)


@pytest.mark.parametrize(
    ("data", "exact"),
    [
        ({"image": IMAGE, "speed": SPEED}, True),
        ({"image": IMAGE, "speed": SPEED, "name": 7}, True),  # no array
        ({"image": IMAGE}, False),
        ({"image": IMAGE, "speed": SPEED.astype(">f4")}, False),
        ({"image": IMAGE, "speed": SPEED.astype(np.float64)}, False),
        ({"image": IMAGE.ravel(), "speed": SPEED}, False),
        ({"image": IMAGE.tolist(), "speed": SPEED}, False),
        ([IMAGE, SPEED], False),
    ],
)
def test_arrays_that_need_no_more_than_a_look_are_told_from_others(data: Any, exact: bool) -> None:
    look = exactness(kind_of(_Pixels))
    assert look is not None
    assert look(data) is exact


@pytest.mark.parametrize(
    "hint",
    [
        Annotated[np.ndarray, Array("uint8", (-1, 2))],
        Annotated[np.ndarray, Array("float32", (2,), low=0, high=1)],
        list[Annotated[np.ndarray, Array("uint8", (2,))]],
        np.ndarray,
    ],
)
def test_other_arrays_take_more_than_a_look(hint: Any) -> None:
    assert exactness(kind_of(msgspec.defstruct("Odd", [("image", hint), ("speed", np.ndarray)]))) is None
    assert exactness(kind_of(msgspec.defstruct("Odd", [("image", hint)]))) is None
