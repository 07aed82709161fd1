from __future__ import annotations

import enum
import math
from typing import Annotated, Any, Literal

import jsonschema
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.errors import ConfigError, ValidationError
from openenv_gym.models import Array
from openenv_gym.tools.marking import Mark
from openenv_gym.tools.results import ToolResult, result_form
from openenv_gym.tools.signature import Signature


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(msgspec.Struct):
    x: int
    y: int = 0


def paint(
    where: Point,
    colour: Colour,
    width: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1,
    *,
    style: Literal["solid", "dashed"] = "solid",
    tags: list[str] = ["a"],  # noqa: B006
) -> str:
    """Paint a dot.

    Args:
        where: The place.
    """
    return f"{where.x},{where.y} {colour.value} {width} {style} {tags}"


PAINT = Signature(paint, Mark("paint"))


def test_the_schema_has_the_types_bounds_defaults_and_what_is_required() -> None:
    schema = PAINT.input_schema
    assert schema["type"] == "object"
    assert schema["required"] == ["where", "colour"]
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert properties["width"] == {"type": "integer", "minimum": 1, "maximum": 9, "default": 1}
    assert properties["style"] == {"enum": ["solid", "dashed"], "default": "solid"}
    assert properties["where"]["required"] == ["x"]


def test_the_description_is_the_docstring_unless_another_is_given() -> None:
    assert PAINT.description == "Paint a dot.\n\nArgs:\n    where: The place."
    assert Signature(paint, Mark("paint", "Other.")).description == "Other."


def test_arguments_arrive_as_the_types_of_the_signature() -> None:
    bound = PAINT.bind({"where": {"x": 1}, "colour": "blue", "width": 3})
    assert bound == {"where": Point(1, 0), "colour": Colour.BLUE, "width": 3}
    assert paint(**bound) == "1,0 blue 3 solid ['a']"


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"colour": "red"}, "$.arguments.where"),
        ({"where": {"x": "1"}, "colour": "red"}, "$.arguments.where.x"),
        ({"where": {}, "colour": "red"}, "$.arguments.where.x"),
        ({"where": {"x": 1}, "colour": "green"}, "$.arguments.colour"),
        ({"where": {"x": 1}, "colour": "red", "width": 10}, "$.arguments.width"),
        ({"where": {"x": 1}, "colour": "red", "width": True}, "$.arguments.width"),
        ({"where": {"x": 1}, "colour": "red", "tags": ["a", 1]}, "$.arguments.tags[1]"),
        ({"where": {"x": 1}, "colour": "red", "weight": 1}, "$.arguments.weight"),
    ],
)
def test_a_wrong_argument_is_named_by_its_path(arguments: dict[str, Any], path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        PAINT.bind(arguments)
    assert caught.value.details == {"path": path, "tool": "paint"}
    assert path in caught.value.message


def test_open_signatures_take_anything_more() -> None:
    def note(text: str, **more: int) -> None: ...

    signature = Signature(note, Mark("note"))
    assert signature.input_schema["additionalProperties"] is True
    assert signature.bind({"text": "a", "b": 2}) == {"text": "a", "b": 2}


def test_parameters_without_annotation_take_anything() -> None:
    signature = Signature(lambda x, y=2: x, Mark("f"))
    assert signature.input_schema["properties"] == {"x": {}, "y": {"default": 2}}
    assert signature.bind({"x": {"any": [1, None]}}) == {"x": {"any": [1, None]}}


def _returns(annotation: Any) -> dict[str, Any] | None:
    return _signature(annotation).output_schema


def _signature(annotation: Any) -> Signature:
    def function() -> None: ...

    function.__annotations__ = {"return": annotation}
    return Signature(function, Mark("f"))


def test_results_that_are_no_objects_are_wrapped_in_their_schema() -> None:
    assert _returns(int) == {
        "type": "object",
        "properties": {"result": {"type": "integer"}},
        "required": ["result"],
    }
    wrapped = _returns(list[Point])
    assert wrapped is not None and wrapped["required"] == ["result"]
    assert wrapped["properties"]["result"]["items"]["properties"].keys() == {"x", "y"}
    point = _returns(Point)
    assert point is not None and point["properties"].keys() == {"x", "y"} and "$defs" not in point
    assert _returns(dict[str, int]) == {"type": "object", "additionalProperties": {"type": "integer"}}


@pytest.mark.parametrize("kind", [Any, None, dict[str, int] | None, Point | int, np.ndarray, ToolResult])
def test_results_of_no_one_form_have_no_schema(kind: Any) -> None:
    assert _returns(kind) is None


_FITTING: list[tuple[Any, Any]] = [
    (int, 3),
    (int, np.int64(3)),
    (float, 3),
    (float, np.float32(1.5)),
    (float, math.nan),
    (list[float], [1.0, -math.inf]),
    (list[float], np.ones(3)),
    (dict[str, float], {"a": math.inf}),
    (tuple[int, float], (1, math.nan)),
    (float | None, math.nan),
    (Annotated[float, msgspec.Meta(ge=0)], 1.0),
    (bytes, b"abc"),
    (dict[int, int], {1: 2}),
    (set[int], {1, 2}),
    (Point, Point(1)),
    (Point, {"x": 1}),
    (list[Point], [Point(1)]),
    (Colour, Colour.RED),
    (Literal["a"], "a"),
    (int | None, None),
    (int, ToolResult(structured_content={"result": 3})),
    (Point, ToolResult(structured_content={"x": 3})),
]


@pytest.mark.parametrize(("kind", "result"), _FITTING, ids=str)
def test_a_result_that_fits_passes_and_conforms_to_the_schema(kind: Any, result: Any) -> None:
    signature = _signature(kind)
    signature.check(result)
    assert signature.output_schema is not None
    jsonschema.validate(result_form(result)["structured_content"], signature.output_schema)


@pytest.mark.parametrize(
    ("kind", "result", "path"),
    [
        (int, "a", "$.result"),
        (int, 3.5, "$.result"),
        (float, "x", "$.result"),
        (str, None, "$.result"),
        (list[int], [1, "a"], "$.result[1]"),
        (Point, {"x": "a"}, "$.result.x"),
        (int, ToolResult(data=3), "$.result"),
        (int, ToolResult(structured_content={"sum": 3}), "$.result"),
        (Point, ToolResult(), "$.result"),
    ],
)
def test_a_result_that_does_not_fit_is_refused(kind: Any, result: Any, path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        _signature(kind).check(result)
    assert caught.value.details["path"] == path


def test_a_result_that_nothing_was_said_of_or_that_has_no_form_passes() -> None:
    _signature(Any).check(object())
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    _signature(list[Any]).check(deep)


def test_recursive_types_keep_their_definition() -> None:
    schema = _returns(Tree)
    assert schema is not None and schema["type"] == "object"
    assert schema["$defs"]["Tree"]["properties"]["left"]["anyOf"][0] == {"$ref": "#/$defs/Tree"}


class Tree(msgspec.Struct):
    left: Tree | None = None


def test_annotations_that_cannot_be_resolved_are_refused() -> None:
    def broken(x: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigError, match=r"tool 'broken': its annotations cannot be resolved .*Nowhere"):
        Signature(broken, Mark("broken"))


def test_arguments_that_nothing_could_tell_apart_are_refused_at_once() -> None:
    def odd(x: list[int] | tuple[int, int]) -> None: ...

    with pytest.raises(ConfigError, match=r"^tool 'odd': its arguments .*: Arguments\.x: .*array-like"):
        Signature(odd, Mark("odd"))


@pytest.mark.parametrize("kind", [str | bytes, list[int] | tuple[int, ...]], ids=str)
def test_results_that_nothing_could_tell_apart_have_no_schema(kind: Any) -> None:
    def tell() -> None: ...

    tell.__annotations__["return"] = kind
    signature = Signature(tell, Mark("tell"))
    assert signature.output_schema is None
    signature.check(b"anything")


def test_arrays_arrive_as_arrays() -> None:
    def show(picture: Annotated[np.ndarray, Array("uint8", (2, 2))]) -> None: ...

    signature = Signature(show, Mark("show"))
    (picture,) = signature.bind({"picture": [[1, 2], [3, 4]]}).values()
    assert picture.dtype == np.uint8 and picture.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValidationError) as caught:
        signature.bind({"picture": [[1, 2]]})
    assert caught.value.details["path"] == "$.arguments.picture"


def test_not_a_number_has_a_spelling() -> None:
    assert math.isnan(Signature(lambda x: x, Mark("f")).bind({"x": float("nan")})["x"])

    def half(x: float) -> float:
        return x / 2

    assert math.isnan(Signature(half, Mark("half")).bind({"x": "NaN"})["x"])


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["where", "colour", "width", "style", "tags", "other"]), _JSON))
def test_any_arguments_are_taken_or_refused_with_a_path(arguments: dict[str, Any]) -> None:
    try:
        bound = PAINT.bind(arguments)
    except ValidationError as exc:
        assert exc.details["path"].startswith("$.arguments")
    else:
        assert bound.keys() == arguments.keys()
