"""Messages as bytes; the golden frames pin the bytes of version 1."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from openenv_gym.errors import LocalProtocolError, RemoteProtocolError
from openenv_gym.protocol import walks
from openenv_gym.protocol.codec import (
    Greeting,
    decode_first,
    decode_reply,
    decode_request,
    encode,
    encode_apart,
)
from openenv_gym.protocol.extensions import Code
from openenv_gym.protocol.messages import (
    Close,
    Closed,
    Error,
    Hello,
    Limits,
    Observation,
    Reply,
    Request,
    Reset,
    Resume,
    Step,
    Transition,
    Value,
)
from openenv_gym.protocol.session import Session, Side
from openenv_gym.protocol.states import Phase
from tests.support import handwritten

from .examples import KINDS, Example, python

GOLDEN = Path(__file__).parent / "golden"
CHANGED = "these bytes are pinned: undo the change, or raise VERSION and the number in SUBPROTOCOL"
SESSION = "0123456789abcdef" * 2


def _golden(kind: str) -> list[Any]:
    rows: list[Any] = json.loads((GOLDEN / f"{kind}.json").read_text(encoding="utf-8"))
    return rows


def _frames() -> list[Example]:
    return [
        Example(f"{kind}-{at}", kind, row) for kind in KINDS for at, row in enumerate(_golden(f"{kind}s"))
    ]


# -- golden frames


@pytest.mark.parametrize("frame", _frames(), ids=lambda frame: frame.name)
def test_the_bytes_of_version_1_have_not_changed(frame: Example) -> None:
    try:
        frame.check()
    except Exception as exc:
        raise AssertionError(f"{frame.lines}: {CHANGED}") from exc


def test_a_session_of_version_1_is_understood_and_written_as_it_was() -> None:
    client, server = Session(Side.CLIENT), Session(Side.SERVER)
    ends = {"client": (client, server, decode_request), "server": (server, client, decode_reply)}
    for row in _golden("conversation"):
        if row["by"] == "lost":
            client.disconnect()
            server.disconnect()
            continue
        frame = bytes.fromhex(row["bytes"])
        sender, receiver, decode = ends[row["by"]]
        repeated = sender is client and client.pending is not None and client.phase is Phase.IDLE
        written = client.repeat() if repeated else sender.send(decode(frame))
        assert handwritten.shortest(written) == frame, CHANGED
        assert receiver.receive(frame) == decode(frame)
    assert client.phase is server.phase is Phase.CLOSED


def test_every_message_extension_and_space_is_pinned() -> None:
    frames = _frames()
    tags = {frame.tree["type"] for frame in frames if frame.kind == "message"}
    assert tags == {cls.__struct_config__.tag for cls in (*Request.__args__, *Reply.__args__)}
    values = {frame.tree.code for frame in frames if isinstance(frame.tree, handwritten.Ext)}
    assert values == {code for name, code in vars(Code).items() if not name.startswith("_")}
    for kind in ("space", "column"):
        pinned = {type(python(frame.lines["space"])) for frame in frames if frame.kind == kind}
        assert pinned == {*walks._BY_CLASS}


# -- what a reader takes and refuses

CLOSE = handwritten.message("close", {"id": 1})
HELLO = {"type": "hello", "session": SESSION, "token": bytes(16)}


@pytest.mark.parametrize(
    "frame",
    [
        b"\x82\xa2id\x01\xa4type\xa5close",
        b"\x82\xa4type\xa5close\xa2id\xd3\x00\x00\x00\x00\x00\x00\x00\x01",
        b"\x82\xa4type\xa5close\xa2id\xcc\x01",
        b"\xde\x00\x02\xa4type\xa5close\xa2id\x01",
        b"\x82\xd9\x04type\xdb\x00\x00\x00\x05close\xa2id\x01",
        b"\x83\xa4type\xa5close\xa2id\x07\xa2id\x01",
        bytearray(CLOSE),
        memoryview(CLOSE),
    ],
    ids=lambda frame: bytes(frame).hex(),
)
def test_any_form_of_a_message_is_read(frame: bytes) -> None:
    assert decode_request(frame) == Close(1)


def test_defaults_are_left_out_and_need_not_be() -> None:
    assert encode(Error("internal", "m", 0, False, {})) == encode(Error("internal", "m"))
    spelled = {"type": "value", "id": 1, "values": [None], "callable": False}
    assert decode_reply(handwritten.write(spelled)) == Value(1, [None])
    assert encode(Value(1, [None], False)) == handwritten.message("value", {"id": 1, "values": [None]})


def test_an_integer_is_taken_for_a_float() -> None:
    hello = decode_request(handwritten.write({**HELLO, "slot_timeout": 3, "limits": {"step": 2}}))
    assert isinstance(hello, Hello)
    assert (hello.slot_timeout, hello.limits) == (3.0, Limits(step=2.0))
    assert type(hello.slot_timeout) is type(hello.limits.step) is float


REQUIRED = {
    "hello": {"session": SESSION, "token": b""},
    "resume": {"session": SESSION, "token": b""},
    "welcome": {"session": SESSION, "token": b""},
    "resumed": {"session": SESSION},
    "error": {"code": "internal", "message": ""},
}
FIELDS = {"actions": None, "observations": None, "name": "x", "topic": "x", "values": [], "frames": []}
FIELDS |= {"rewards": b"", "flags": b"", "id": 1}


def _least(cls: Any) -> dict[str, Any]:
    """Return the smallest tree of a message."""
    tag = cls.__struct_config__.tag
    needed = [field.name for field in msgspec.structs.fields(cls) if field.required]
    return {"type": tag, **(REQUIRED.get(tag) or {name: FIELDS[name] for name in needed})}


def _decoder(cls: Any) -> Any:
    return decode_request if cls in Request.__args__ else decode_reply


@pytest.mark.parametrize(
    "cls", (*Request.__args__, *Reply.__args__), ids=lambda cls: cls.__struct_config__.tag
)
def test_unknown_fields_are_ignored_where_both_sides_may_grow_and_named_elsewhere(cls: Any) -> None:
    decode, tree = _decoder(cls), _least(cls)
    plain = decode(handwritten.write(tree))
    grown = handwritten.write({**tree, "novelty": {"a": [1]}})
    if tree["type"] in ("hello", "resume", "welcome", "resumed"):
        assert decode(grown) == plain
    else:
        with pytest.raises(RemoteProtocolError, match="novelty"):
            decode(grown)


def test_unknown_limits_are_ignored() -> None:
    tree = {**HELLO, "limits": {"message": 7, "novelty": [1]}}
    assert decode_request(handwritten.write(tree)).limits == Limits(message=7)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "cls", (*Request.__args__, *Reply.__args__), ids=lambda cls: cls.__struct_config__.tag
)
def test_a_missing_field_is_named(cls: Any) -> None:
    for name in _least(cls):
        tree = {key: value for key, value in _least(cls).items() if key != name}
        with pytest.raises(RemoteProtocolError, match=f"`{name}`"):
            _decoder(cls)(handwritten.write(tree))


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ([], "Expected `object`"),
        (None, "Expected `object`"),
        ({}, "`type`"),
        ({"type": "dance", "id": 1}, "dance"),
        ({"type": 7}, "type"),
        ({"type": "closed", "id": 1}, "closed"),
        ({"type": "close", "id": 1.0}, r"\$\.id"),
        ({"type": "close", "id": True}, r"\$\.id"),
        ({"type": "close", "id": "1"}, r"\$\.id"),
        ({"type": "close", "id": 2**70 // 2**8 - 1, "x": 1}, "x"),
        ({"type": "get", "id": 1, "name": b"x"}, r"\$\.name"),
        ({"type": "reset", "id": 1, "mask": "01"}, r"\$\.mask"),
        ({"type": "set", "id": 1, "name": "x", "values": 3}, r"\$\.values"),
        ({"type": "call", "id": 1, "name": "f", "kwargs": {1: 2}}, r"\$\.kwargs"),
        ({**HELLO, "lanes": None}, r"\$\.lanes"),
        ({**HELLO, "limits": [1]}, r"\$\.limits"),
        ({**HELLO, "token": "AAAA"}, r"\$\.token"),
        ({"type": "reset", "id": 1, "options": handwritten.Ext(99, b"x")}, "extension 99"),
        ({"type": "reset", "id": 1, "options": handwritten.Ext(9, b"")}, "extension 9"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_request_is_said(tree: Any, says: str) -> None:
    with pytest.raises(RemoteProtocolError, match=says):
        decode_request(handwritten.write(tree))


@pytest.mark.parametrize(
    "frame",
    [b"", b"\xc1", CLOSE + b"\x00", CLOSE[:-1], b"\x81\xa4type\xa1\xff"],
    ids=lambda frame: frame.hex(),
)
def test_what_is_no_message_pack_is_refused(frame: bytes) -> None:
    for decode in (decode_request, decode_reply):
        with pytest.raises(RemoteProtocolError, match=re.escape("not a message of openenv.msgpack.v1")):
            decode(frame)


def test_each_side_reads_what_the_other_sends() -> None:
    with pytest.raises(RemoteProtocolError, match="close"):
        decode_reply(CLOSE)
    with pytest.raises(RemoteProtocolError, match="closed"):
        decode_request(encode(Closed(1)))


@pytest.mark.parametrize(
    "value", [object(), {1, object()}, 2**64, [[object()]]], ids=lambda value: type(value).__name__
)
def test_a_value_that_was_not_packed_is_a_fault_of_this_side(value: Any) -> None:
    with pytest.raises(LocalProtocolError, match="cannot be encoded"):
        encode(Step(1, value))


def test_what_begins_a_connection_is_read_but_for_the_constructor_arguments() -> None:
    hello = Hello(session="a" * 32, token=bytes(16), env_kwargs={"a": 1}, lanes=3)
    greeting = decode_first(encode(hello))
    assert isinstance(greeting, Greeting)
    assert (greeting.session, greeting.lanes) == (hello.session, 3)
    assert bytes(greeting.env_kwargs) == msgspec.msgpack.encode({"a": 1})
    bare = decode_first(encode(Hello(session="a" * 32, token=bytes(16))))
    assert isinstance(bare, Greeting)
    assert bytes(bare.env_kwargs) == b"\xc0"
    resume = Resume(session="a" * 32, token=bytes(16))
    assert decode_first(encode(resume)) == resume


def test_constructor_arguments_take_no_time_before_there_is_a_session() -> None:
    """What stands in them is no extension that exists, and its reader is never asked."""
    raw = encode(Hello(session="a" * 32, token=bytes(16), env_kwargs={"a": 1}))
    raw = raw.replace(b"\x81\xa1a\x01", b"\xd4\x7f\x00")
    decode_first(raw)
    with pytest.raises(RemoteProtocolError, match="extension 127 is unknown"):
        decode_request(raw)


@pytest.mark.parametrize(
    "frame",
    [b"", b"\xc1", b"\x01", encode(Reset(1)), b"\x91" * 100_000],
    ids=["none", "bad", "int", "reset", "deep"],
)
def test_nothing_else_begins_a_connection(frame: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="a connection begins with 'hello' or 'resume'"):
        decode_first(frame)


# -- large replies

_BIG = bytes(range(256)) * 200


@pytest.mark.parametrize(
    "reply",
    [
        Transition(7, _BIG, b"r", b"f", [{"a": 1}], None, _BIG, [{}], [1, 2], ["w"], [], {"x": _BIG}),
        Observation(7, _BIG, [{"a": [_BIG]}], b"l", ["w"]),
    ],
    ids=["transition", "observation"],
)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_large_observations_are_a_view_of_their_frame(reply: Any, kind: Any) -> None:
    frame = kind(encode(reply))
    found: Any = decode_reply(frame)
    assert type(found) is type(reply)
    assert found == reply
    assert type(found.observations) is memoryview
    assert all(type(value) is not memoryview for value in msgspec.structs.astuple(found)[2:])
    assert np.shares_memory(np.frombuffer(frame, np.uint8), np.frombuffer(found.observations, np.uint8))


@pytest.mark.parametrize("column", [["text" * 9000], {"a": _BIG, "b": [None]}, None])
def test_other_large_columns_are_what_they_are_in_small_replies(column: Any) -> None:
    reply = Transition(7, column, b"r", b"f", [{"fill": _BIG}])
    assert decode_reply(encode(reply)) == reply
    assert msgspec.structs.astuple(decode_reply(encode(reply)))[1] == column


def test_other_large_replies_are_not_affected() -> None:
    reply = Value(7, [_BIG])
    assert decode_reply(encode(reply)) == reply


@pytest.mark.parametrize("size", [32_768, 65_535, 65_536, 1_000_000])
@pytest.mark.parametrize("number", [1, 2**64 - 1])
def test_large_observations_apart_are_the_same_bytes(size: int, number: int) -> None:
    for reply in (Transition(number, bytes(size), b"r", b"f"), Observation(number, bytes(size), [{}])):
        column = reply.observations
        pieces = encode_apart(reply)
        assert pieces is not None
        assert pieces[1] is column is reply.observations
        assert b"".join(pieces) == encode(reply)


def test_observations_apart_may_be_a_view() -> None:
    reply = Transition(1, memoryview(bytearray(_BIG)), b"r", b"f")
    pieces = encode_apart(reply)
    assert pieces is not None and pieces[1] is reply.observations
    assert b"".join(pieces) == encode(Transition(1, _BIG, b"r", b"f")) == encode(reply)


def test_observations_apart_are_found_behind_all_that_looks_like_them() -> None:
    column = b"\xacobservations\xc5\x80\x00" * 2048
    reply = Transition(0xC5_80_00_C5_80_00, column[:32768], column, b"")
    assert b"".join(encode_apart(reply) or ()) == encode(reply)


@pytest.mark.parametrize(
    "reply",
    [
        Transition(1, bytes(32_767), b"", b""),
        Transition(1, [_BIG], b"", b""),
        Observation(1, {"a": _BIG}),
        Value(1, [_BIG]),
    ],
    ids=lambda reply: type(reply).__name__,
)
def test_what_is_not_large_observations_is_not_taken_apart(reply: Any) -> None:
    assert encode_apart(reply) is None


def test_a_reply_that_cannot_be_encoded_is_left_as_it_was() -> None:
    reply = Transition(1, _BIG, object(), b"")
    with pytest.raises(LocalProtocolError):
        encode_apart(reply)
    assert reply.observations is _BIG


def test_flaws_of_large_replies_are_named_like_those_of_small_ones() -> None:
    body = msgspec.msgpack.decode(encode(Transition(7, b"", b"", b"")))
    texts = []
    for observations in (b"", _BIG):
        frame = msgspec.msgpack.encode(body | {"observations": observations, "more": 1})
        with pytest.raises(RemoteProtocolError, match="more") as caught:
            decode_reply(frame)
        texts.append(caught.value.message)
    assert texts[0] == texts[1]
