"""What msgspec found wrong, in our words."""

from __future__ import annotations

import msgspec
import pytest

from openenv_gym.structs.faults import explained
from openenv_gym.structs.hints import kind_of
from tests.structs.zoo import Everything


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        ("Expected `int` <= 100 - at `$.boundedInt`", "$.boundedInt: expected int <= 100, got 101"),
        ("Expected `int`, got `str` - at `$.mixed`", "$.mixed: expected int, got str: 'x'"),
        ("Expected `str` - at `key` in `$.table`", "$.table: expected str, got {3: 1}"),
        ("Object missing required field `x` - at `$.point`", "$.point.x: missing; it is required"),
        (
            "Object contains unknown field `z` - at `$.point`",
            "$.point.z: there is no such field; the fields are x, y",
        ),
        ("Object contains unknown field `z` - at `$.odd`", "$.odd.z: there is no such field"),
        ("Invalid enum value 'pink' - at `$.colour`", "$.colour: expected one of 'red', 'green', got 'pink'"),
        ("Invalid enum value 'pink' - at `$.odd`", "$.odd: invalid enum value 'pink'"),
        ("Expected `float` - at `$.pairs[0][1]`", "$.pairs[0][1]: expected float, got 'y'"),
        ("Expected `float` - at `$.table[...][0]`", "$.table[...][0]: expected float"),
        ("something is odd", "$: something is odd"),
    ],
)
def test_messages_name_place_value_and_what_was_wanted(raised: str, message: str) -> None:
    data = {
        "boundedInt": 101,
        "mixed": "x",
        "table": {3: 1},
        "point": {"z": 1},
        "colour": "pink",
        "pairs": [[1, "y"]],
    }
    error = explained(msgspec.ValidationError(raised), kind_of(Everything), data, "$")
    assert str(error) == message
    assert error.details == {"path": message.partition(": ")[0]}


def test_the_place_begins_where_the_data_stood() -> None:
    error = explained(
        msgspec.ValidationError("Expected `int` - at `$.mixed`"), kind_of(Everything), {}, "$.action"
    )
    assert str(error) == "$.action.mixed: expected int"


def test_a_long_value_is_cut() -> None:
    error = explained(
        msgspec.ValidationError("Expected `int` - at `$.mixed`"),
        kind_of(Everything),
        {"mixed": "x" * 999},
        "$",
    )
    assert len(str(error)) < 120
