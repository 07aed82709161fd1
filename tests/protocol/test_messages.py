"""Messages: their names, what they may carry, their defaults; docs/protocol.md pins the fields."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from openenv_gym.protocol import messages as m

REQUESTS, REPLIES = get_args(m.Request), get_args(m.Reply)
OPEN = {m.Hello, m.Resume, m.Welcome, m.Resumed}


def _tag(cls: Any) -> str:
    return str(cls.__struct_config__.tag)


def test_every_message_belongs_to_one_side_and_has_a_name_of_its_own() -> None:
    exported = {getattr(m, name) for name in m.__all__}
    structs = {item for item in exported if isinstance(item, type) and issubclass(item, msgspec.Struct)}
    assert structs == {*REQUESTS, *REPLIES, m.Limits, m.LaneFailure}
    tags = [_tag(cls) for cls in (*REQUESTS, *REPLIES)]
    assert tags == [cls.__name__.lower() for cls in (*REQUESTS, *REPLIES)]
    assert len({*tags}) == len(tags)


def test_the_subprotocol_names_the_version() -> None:
    assert m.SUBPROTOCOL.endswith(f".v{m.VERSION}")
    for cls in (m.Hello, m.Welcome, m.Resume):
        assert cls(session="a", token=b"").version == m.VERSION


@pytest.mark.parametrize("cls", (*REQUESTS, *REPLIES, m.LaneFailure), ids=lambda cls: cls.__name__)
def test_only_the_messages_that_open_a_session_may_grow(cls: Any) -> None:
    assert cls.__struct_config__.forbid_unknown_fields is (cls not in OPEN)
    assert cls.__struct_config__.omit_defaults


@pytest.mark.parametrize("cls", (*REQUESTS, *REPLIES), ids=lambda cls: cls.__name__)
def test_every_message_within_a_session_has_an_id(cls: Any) -> None:
    kinds = {field.name: field.type for field in msgspec.structs.fields(cls)}
    assert (kinds.get("id") is int) is (cls not in OPEN)


def test_mutable_defaults_are_not_shared() -> None:
    one, other = m.Call(1, "f"), m.Call(2, "f")
    one.args.append(1)
    one.kwargs["a"] = 1
    assert (other.args, other.kwargs) == ([], {})
    with pytest.raises(AttributeError):
        m.Limits().message = 1  # type: ignore[misc]
