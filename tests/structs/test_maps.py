"""Maps of Structs: every field there and back, and every mistake named."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pytest

from openenv_gym.errors import ConfigError, OpenEnvError, ValidationError, ValueNotCarriedError
from openenv_gym.forms import form_of
from openenv_gym.models import CallToolAction, ListToolsAction, Observation
from openenv_gym.structs import from_map, to_map
from openenv_gym.structs.maps import jsonable
from openenv_gym.testing.compare import same
from tests.structs.zoo import Cat, Colour, Dog, Everything, Hint, Level, Point, Say, Size, Tree, View

_FULL = Everything(
    flag=True,
    bounded_int=7,
    number=float("-inf"),
    text="é",
    pattern="aaa",
    data=b"\x00\xff",
    anything={"a": [1, None, 2**70]},
    maybe=float("nan"),
    mixed="NaN",
    colour=Colour.GREEN,
    level=Level.LOW,
    literal=None,
    point=Point(float("inf"), -0.0),
    size=Size(3, 4),
    pet=Dog("rex"),
    tree=Tree(1.0, [Tree(float("nan"))]),
    numbers=[1.5, float("nan")],
    pairs=((1, 2.5), (2**62, float("inf"))),
    table={"a": [float("-inf")], "b": []},
    by_number={3: "c"},
    unique={1, 2},
    time=dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.UTC),
    day=dt.date(2026, 1, 2),
    span=dt.timedelta(seconds=90),
    key=uuid.UUID(int=5),
    price=Decimal("1.50"),
    array=np.array([1, np.nan], np.float32),
)


def _fields(value: Any) -> Any:
    """Return a form that :func:`same` compares: Structs as dicts, their classes named."""
    if isinstance(value, msgspec.Struct):
        inner = {name: _fields(getattr(value, name)) for name in value.__struct_fields__}
        return {"class": type(value).__name__, **inner}
    if isinstance(value, list | tuple):
        return type(value)(map(_fields, value))
    return value


@pytest.mark.parametrize("value", [Everything(), _FULL, Everything(pet=Cat(3), mixed=4, literal=3)])
def test_everything_comes_back_as_it_left(value: Everything) -> None:
    plain = from_map(Everything, to_map(value))
    text = msgspec.json.encode(to_map(value, json=True))
    assert same(_fields(plain), _fields(value))
    assert same(_fields(from_map(Everything, msgspec.json.decode(text))), _fields(value))


def test_json_maps_have_one_spelling() -> None:
    found = to_map(_FULL, json=True)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["boundedInt"] == 7
    assert found["number"] == "-Infinity"
    assert found["maybe"] == "NaN"
    assert found["data"] == "AP8="
    assert found["array"] == [1.0, "NaN"]
    assert found["pet"] == {"type": "dog", "name": "rex"}
    assert found["size"] == {"width": 3, "height": 4}
    assert found["byNumber"] == {"3": "c"}
    assert found["colour"] == "green"
    assert found["time"] == "2026-01-02T03:04:05.000006Z"


def test_plain_maps_keep_what_the_wire_carries() -> None:
    found = to_map(_FULL)
    assert found["array"] is _FULL.array
    assert found["data"] == b"\x00\xff"
    assert found["time"] is _FULL.time
    assert found["unique"] == {1, 2}
    assert found["tree"] == {"value": 1.0, "children": [found["tree"]["children"][0]]}


def test_what_travels_beside_an_observation_is_not_in_it() -> None:
    hint = Hint(number=3, done=True, reward=1.0, metadata={"a": 1})
    assert to_map(hint) == {"number": 3}
    assert to_map(hint, exclude=("terminated", "truncated")) == {
        "number": 3,
        "done": True,
        "reward": 1.0,
        "metadata": {"a": 1},
    }
    assert to_map(Say(message="hi")) == {"message": "hi", "metadata": {}}
    assert from_map(Hint, {"number": 3, "done": True}) == Hint(number=3, done=True)


def test_numbers_of_numpy_count_as_numbers() -> None:
    class Score(Observation):
        value: float
        count: int = 0
        good: bool = False
        maybe: float | None = None

    data = {"value": np.float32(0.5), "count": np.int64(3), "good": np.True_, "maybe": np.float64("nan")}
    found = from_map(Score, data)
    assert (found.value, found.count, found.good) == (0.5, 3, True)
    assert [type(item) for item in (found.value, found.count, found.good, found.maybe)] == [
        float,
        int,
        bool,
        float,
    ]
    with pytest.raises(ValidationError, match=r"^\$\.count: expected int, got float"):
        from_map(Score, {"value": 1, "count": np.float64(3)})


def test_a_union_may_have_members_without_a_tag() -> None:
    union = Say | Hint | CallToolAction | ListToolsAction
    assert from_map(union, {"message": "hi"}) == Say(message="hi")
    assert from_map(union, {"number": 4}) == Hint(number=4)
    call = {"type": "call_tool", "tool_name": "add", "arguments": {"a": 1}}
    assert from_map(union, call) == CallToolAction(tool_name="add", arguments={"a": 1})
    assert from_map(union, {"type": "list_tools"}) == ListToolsAction()
    assert from_map(CallToolAction, {"tool_name": "add"}) == CallToolAction(tool_name="add")


@pytest.mark.parametrize(
    ("cls", "data", "path", "words"),
    [
        (Hint, {"number": 101}, "$.number", "expected int <= 100, got 101"),
        (Hint, {"number": "1"}, "$.number", "expected int, got str: '1'"),
        (Hint, {"number": True}, "$.number", "expected int, got bool: True"),
        (Hint, {"number": 1.0}, "$.number", "expected int, got float: 1.0"),
        (Hint, {"number": None}, "$.number", "expected int, got null: None"),
        (Hint, {"done": 1}, "$.done", "expected bool, got int: 1"),
        (Hint, [], "$", "expected object, got array: []"),
        (Say, {}, "$.message", "missing; it is required"),
        (Say, {"message": "a", "mesage": 1}, "$.mesage", "there is no such field; the fields are message"),
        (Everything, {"text": "aaaaaa"}, "$.text", "expected str of length <= 5, got 'aaaaaa'"),
        (Everything, {"pattern": "b"}, "$.pattern", "expected str matching regex"),
        (Everything, {"colour": "blue"}, "$.colour", "expected one of 'red', 'green', got 'blue'"),
        (Everything, {"literal": "b"}, "$.literal", "expected one of 'a', 3, None, got 'b'"),
        (Everything, {"data": "?"}, "$.data", "invalid base64"),
        (Everything, {"number": "nan"}, "$.number", "expected float, got str: 'nan'"),
        (Everything, {"point": {"x": "1"}}, "$.point.x", "expected float, got str: '1'"),
        (Everything, {"size": {"height": 2}}, "$.size.width", "missing"),
        (Everything, {"pet": {"type": "cow"}}, "$.pet.type", "invalid value 'cow'"),
        (Everything, {"pet": {"type": "cat", "lives": 10}}, "$.pet.lives", "expected int <= 9, got 10"),
        (Everything, {"tree": {"value": 1, "children": [{}]}}, "$.tree.children[0].value", "missing"),
        (Everything, {"numbers": [1, "x"]}, "$.numbers[1]", "expected float, got str: 'x'"),
        (Everything, {"pairs": [[1, 2], [1]]}, "$.pairs[1]", "expected array of length 2, got 1"),
        (Everything, {"table": {"a": [1, "x"]}}, "$.table[...][1]", "expected float, got str"),
        (Everything, {"array": [1]}, "$.array", "shape (2,)"),
        (Everything, {"array": "x"}, "$.array", "expected numpy.ndarray, got str"),
        (View, {"image": [[0, 1, 2], [3, 4, 256]]}, "$.image", "expected an array of uint8"),
    ],
)
def test_a_mistake_names_its_field(cls: Any, data: Any, path: str, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        from_map(cls, data)
    assert caught.value.details["path"] == path
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)


def test_a_mistake_is_named_from_where_the_data_stood() -> None:
    with pytest.raises(ValidationError, match=r"^\$\.data\.number: expected int"):
        from_map(Hint, {"number": "x"}, where="$.data")


def test_a_check_of_the_class_itself_is_a_validation_error() -> None:
    class Even(msgspec.Struct):
        number: int

        def __post_init__(self) -> None:
            if self.number % 2:
                raise ValueError("the number must be even")

    with pytest.raises(ValidationError, match=r"^\$: the number must be even"):
        from_map(Even, {"number": 3})


def test_what_is_unset_is_not_in_the_map() -> None:
    class Odd(msgspec.Struct):
        a: int | msgspec.UnsetType = msgspec.UNSET

    assert to_map(Odd()) == to_map(Odd(), json=True) == {}
    assert from_map(Odd, {}) == Odd()
    assert form_of(Odd).from_value(form_of(Odd).to_value(Odd())) == Odd()
    assert form_of(Odd).from_value(form_of(Odd).to_value(Odd(3))) == Odd(3)


def test_types_that_cannot_be_told_apart_are_refused() -> None:
    class Odd(msgspec.Struct):
        value: str | dt.datetime

    with pytest.raises(ConfigError, match="cannot be decoded"):
        from_map(Odd, {"value": 1})


@pytest.mark.parametrize(
    "value",
    [1 + 2j, object(), np.array([1j]), np.array(["2026-01-01"], "M8[ns]"), {(1, 2): 3}],
    ids=["complex", "object", "array", "dates", "key"],
)
def test_what_json_cannot_say_is_an_error(value: Any) -> None:
    with pytest.raises(ValueNotCarriedError) as caught:
        to_map(Everything(anything=[value]), json=True)
    assert caught.value.details["path"] == "$.anything[0]"
    assert isinstance(caught.value, OpenEnvError)


def test_other_values_are_spelled_alike() -> None:
    assert jsonable({1: (Colour.RED, Level.LOW)}, "$") == {"1": ["red", 1]}
    assert jsonable(np.array(["a", "b"]), "$") == ["a", "b"]
    assert jsonable(np.float32("inf"), "$") == "Infinity"


@pytest.mark.parametrize("data", [{"\ud800": 1}, {"numbers": {"\ud800": 1}}])
def test_a_name_that_is_no_unicode_is_wrong(data: dict[str, Any]) -> None:
    class Numbered(msgspec.Struct, forbid_unknown_fields=True):
        numbers: dict[int, int] = msgspec.field(default_factory=dict)

    with pytest.raises(ValidationError, match="no valid Unicode") as caught:
        from_map(Numbered, data)
    assert caught.value.details == {"path": "$"}


def test_what_contains_itself_is_not_carried() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueNotCarriedError, match=r"^\$\.data has no form in JSON: it contains itself"):
        jsonable(loop, "$.data")
