"""docs/protocol.md says what the code does: its examples, its tables, its numbers."""

from __future__ import annotations

import re
from functools import cache
from inspect import signature
from typing import Any

import msgspec
import pytest
from gymnasium import spaces

from openenv_gym.errors import ErrorCode
from openenv_gym.protocol import arrays, walks
from openenv_gym.protocol.extensions import MAX_DEPTH, Code
from openenv_gym.protocol.messages import SUBPROTOCOL, VERSION, LaneFailure, Limits, Reply, Request
from openenv_gym.protocol.states import ANSWERS, TRANSITIONS, Phase
from openenv_gym.servers.arrivals import PATIENCE
from tests.support.handwritten import MESSAGES
from tests.tree import ROOT

from .examples import KINDS, Example, examples, python

TEXT = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
EXAMPLES = examples(TEXT)
CLASSES: tuple[Any, ...] = (*Request.__args__, *Reply.__args__)


def _tag(cls: Any) -> str:
    return str(cls.__struct_config__.tag)


def _section(title: str) -> str:
    """Return what stands below a heading, up to the next one of its rank or a higher one."""
    found = re.search(rf"^(#+) {re.escape(title)}$(.*?)(?=^#{{1,3}} |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found, f"there is no section {title!r}"
    return found[2]


def _tables(text: str) -> list[list[list[str]]]:
    """Return the rows of each table, without its head."""
    tables = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        rows = [re.split(r"(?<!\\)\|", line.strip("|")) for line in block.splitlines()[2:]]
        tables.append([[cell.strip() for cell in row] for row in rows])
    return tables


def _names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.kind}-{example.name}")
def test_every_example_is_what_the_code_writes_and_reads(example: Example) -> None:
    example.check()


def test_the_annotated_example_is_the_one_below_it() -> None:
    section = _section("3. MessagePack")
    first = re.search(r"^83 .*?(?=^```)", section, re.MULTILINE | re.DOTALL)
    assert first
    items = [re.split(r"  +", line)[0] for line in first[0].splitlines()]
    given = examples(section)[0].bytes.hex()
    head, short = "".join(items).replace(" ", "").split("3031...")
    assert given.startswith(head + "3031")
    assert short.removesuffix("0001...") in given


# -- messages


@cache
def _fields(tag: str) -> list[list[str]]:
    return _tables(_section(tag))[0]


_TYPES = {
    "int": {"int"},
    "str": {"str"},
    "bool": {"bool"},
    "float": {"float"},
    "bytes": {"bin"},
    "Any": {"value", "column", "spec", "bin or values"},
    "Limits": {"map"},
    "list[str]": {"array of str"},
    "list[int]": {"array of int"},
    "list[Any]": {"values"},
    "list[LaneFailure]": {"array of lane failures"},
    "dict[str, Any]": {"map of values"},
}
_DEFAULTS = {"nil": None, "true": True, "false": False}


def _default(cell: str) -> Any:
    if not cell:
        return msgspec.NODEFAULT
    return _DEFAULTS[cell] if cell in _DEFAULTS else python(cell)


def _code_default(field: Any) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return {} if isinstance(field.default, Limits) else field.default


def _check_fields(cls: Any, rows: list[list[str]]) -> None:
    fields = msgspec.structs.fields(cls)
    assert [_names(row[0])[0] for row in rows] == [field.name for field in fields]
    for row, field in zip(rows, fields, strict=True):
        kind = str(cls.__annotations__[field.name]).removesuffix(" | None")
        assert row[1] in _TYPES[kind], field.name
        default = _default(row[2])
        assert (default, type(default)) == (_code_default(field), type(_code_default(field))), field.name


@pytest.mark.parametrize("cls", CLASSES, ids=_tag)
def test_every_message_has_its_fields_in_a_table(cls: Any) -> None:
    _check_fields(cls, _fields(_tag(cls)))


@pytest.mark.parametrize("cls", CLASSES, ids=_tag)
def test_examples_show_every_field_of_every_message(cls: Any) -> None:
    shown = set()
    for example in examples(_section(_tag(cls))):
        tree = example.tree
        assert tree["type"] == _tag(cls)
        shown |= tree.keys()
    assert {*cls.__struct_fields__} - {"version"} <= shown | (
        {"capabilities"} if _tag(cls) == "welcome" else set()
    )


@pytest.mark.parametrize("cls", CLASSES, ids=_tag)
def test_where_unknown_fields_are_ignored_is_said(cls: Any) -> None:
    said = "Fields that the receiver does not know are ignored." in _section(_tag(cls))
    assert said is not cls.__struct_config__.forbid_unknown_fields


def test_the_second_implementation_has_the_messages_of_the_document() -> None:
    tags = [_tag(cls) for cls in CLASSES]
    assert sorted(MESSAGES) == sorted(tags)
    for tag in tags:
        assert list(MESSAGES[tag]) == [_names(row[0])[0] for row in _fields(tag)]


def test_the_limits_and_lane_failures_are_those_of_the_code() -> None:
    _check_fields(Limits, _tables(_section("12. Limits"))[0])
    _check_fields(LaneFailure, _tables(TEXT.partition("#### Lane failures")[2])[0])


# -- the conversation


def test_the_conversation_is_that_of_the_code() -> None:
    meanings, transitions, answers = _tables(_section("4. The conversation"))
    assert [_names(row[0])[0] for row in meanings] == [phase.name for phase in Phase]
    told: dict[str, dict[str, str]] = {phase.name: {} for phase in Phase}
    for phase, messages, following in transitions:
        for tag in _names(messages):
            assert tag not in told[_names(phase)[0]]
            told[_names(phase)[0]][tag] = _names(following)[0]
    coded = {
        phase.name: {_tag(cls): following.name for cls, following in row.items()}
        for phase, row in TRANSITIONS.items()
    }
    assert told == coded
    asked = {tag: _names(reply)[0] for requests, reply in answers for tag in _names(requests)}
    assert asked == {_tag(request): _tag(reply) for request, reply in ANSWERS.items()}


# -- codes, kinds, numbers


def test_the_error_codes_are_those_of_the_code() -> None:
    rows = _tables(_section("8. Errors"))[0]
    assert [_names(row[0])[0] for row in rows] == [str(code) for code in ErrorCode]
    assert {row[1] for row in rows} == {"yes", "no", "either", "-"}


def test_the_extensions_are_those_of_the_code_and_each_has_an_example() -> None:
    codes = sorted(code for name, code in vars(Code).items() if not name.startswith("_"))
    assert [int(row[0]) for row in _tables(_section("9. Self-described values"))[0]] == codes
    wires = "\n".join(example.lines["wire"] for example in EXAMPLES if example.kind == "value")
    assert sorted({int(code) for code in re.findall(r"ext\((\d+),", wires)}) == codes


def test_the_dtypes_are_those_of_the_code() -> None:
    rows = _tables(_section("9. Self-described values"))[1]
    for name in (name.replace("\\|", "|") for row in rows for name in _names(row[0])):
        if name not in (">", "<M8[unit]", "<m8[unit]"):
            assert arrays.parse_dtype(name).str == name
    assert "unit: `Y M W D h m s ms us ns ps fs as`" in TEXT


def test_every_kind_of_space_is_listed_and_has_a_spec_and_a_column() -> None:
    kinds = list(walks._BY_NAME)
    rows = _tables(_section("10. Spaces"))[0]
    assert [_names(row[0])[0] for row in rows if row[0]] == kinds
    columns = {
        name for row in _tables(_section("11. Columns: the values of a space"))[0] for name in _names(row[0])
    }
    assert {*kinds} <= columns
    for label in ("space", "column"):
        shown = {type(python(example.lines["space"])) for example in EXAMPLES if example.kind == label}
        assert {cls.__name__ for cls in shown} == {cls.__name__ for cls in walks._BY_CLASS}


def test_the_fields_of_spaces_are_those_of_the_code() -> None:
    kind, told = "", {}
    for row in _tables(_section("10. Spaces"))[0]:
        kind = _names(row[0])[0] if row[0] else kind
        told.setdefault(kind, set()).update(_names(row[1]))
    assert told == {name: {*kind.fields.__struct_fields__} for name, kind in walks._BY_NAME.items()}


def test_every_kind_of_example_is_there() -> None:
    assert {example.kind for example in EXAMPLES} == {*KINDS}
    if "dtype" in signature(spaces.Discrete).parameters:
        line = python("Discrete(200, dtype=uint8)")
        assert walks.to_spec(line)["dtype"] == "|u1"


def test_the_numbers_are_those_of_the_code() -> None:
    assert SUBPROTOCOL in TEXT.splitlines()[0]
    assert f"{SUBPROTOCOL.rpartition('.')[0]}.v{VERSION + 1}" in TEXT
    limits = _section("12. Limits")
    assert limits.count(f"| {MAX_DEPTH} |") == 2
    assert f"{walks.SPEC_LIMIT} bytes: {walks.NODE_COST} for each space" in limits
    assert f"within {PATIENCE:g} seconds" in TEXT
