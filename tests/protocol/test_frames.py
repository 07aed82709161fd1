from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ProtocolError
from websockets.frames import Close
from websockets.frames import Frame as TheirFrame
from websockets.streams import StreamReader

from openenv_gym.errors import LocalProtocolError, RemoteProtocolError
from openenv_gym.protocol.frames import (
    BINARY,
    CONT,
    PING,
    PONG,
    TEXT,
    close_payload,
    frame,
    header,
    masked_message,
    message_parts,
    parse_close,
    plain_message,
)

sizes = st.sampled_from([0, 1, 40, 125, 126, 127, 4090, 65535, 65536, 70_000])


def _read(data: bytes, masked: bool) -> TheirFrame:
    stream = StreamReader()
    stream.feed_data(data)
    stream.feed_eof()
    parser = TheirFrame.parse(stream.read_exact, mask=masked)
    with pytest.raises(StopIteration) as done:
        next(parser)
    assert list(stream.read_to_eof(0)) == []
    parsed: TheirFrame = done.value.value
    return parsed


@given(sizes, st.sampled_from([CONT, TEXT, BINARY]), st.booleans(), st.booleans())
def test_websockets_reads_data_frames(size: int, opcode: int, masked: bool, fin: bool) -> None:
    payload = bytes(i % 251 for i in range(size))
    read = _read(frame(opcode, payload, masked=masked, fin=fin), masked)
    assert (read.opcode, read.data, read.fin) == (opcode, payload, fin)


@given(st.binary(max_size=125), st.sampled_from([PING, PONG]), st.booleans())
def test_websockets_reads_control_frames(payload: bytes, opcode: int, masked: bool) -> None:
    read = _read(frame(opcode, payload, masked=masked), masked)
    assert (read.opcode, read.data, read.fin) == (opcode, payload, True)


@given(sizes, st.sampled_from([bytes, bytearray, memoryview]))
def test_websockets_reads_messages(size: int, kind: type) -> None:
    payload = bytes(i % 251 for i in range(size))
    written = {
        False: [plain_message(kind(payload)), b"".join(message_parts(kind(payload), masked=False))],
        True: [masked_message(kind(payload)), b"".join(message_parts(kind(payload), masked=True))],
    }
    for masked, frames in written.items():
        for data in frames:
            read = _read(data, masked)
            assert (read.opcode, read.data, read.fin) == (BINARY, payload, True)


def test_parts_do_not_copy_what_is_not_masked() -> None:
    payload = bytes(100_000)
    assert message_parts(payload, masked=False)[1] is payload


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, b"\x82\x00"),
        (125, b"\x82\x7d"),
        (126, b"\x82\x7e\x00\x7e"),
        (65535, b"\x82\x7e\xff\xff"),
        (65536, b"\x82\x7f" + struct.pack(">Q", 65536)),
    ],
)
def test_header_spells_a_size_in_its_shortest_form(size: int, expected: bytes) -> None:
    assert header(0x82, size, masked=False) == expected
    assert header(0x82, size, masked=True)[1] == expected[1] | 0x80


@pytest.mark.parametrize("wrong", [{"payload": bytes(126)}, {"fin": False}], ids=repr)
def test_control_frames_have_their_limits(wrong: dict[str, object]) -> None:
    with pytest.raises(LocalProtocolError, match="whole and has at most 125 bytes"):
        frame(PING, masked=False, **wrong)  # type: ignore[arg-type]


@given(st.integers(0, 6000), st.text(max_size=60))
def test_close_codes_are_those_of_websockets(code: int, reason: str) -> None:
    data = struct.pack(">H", code) + reason.encode("utf-8", "replace")[:123]
    try:
        theirs = Close.parse(data)
    except (ProtocolError, UnicodeDecodeError):
        with pytest.raises(RemoteProtocolError):
            parse_close(data)
        return
    assert parse_close(data) == (theirs.code, theirs.reason)
    assert parse_close(close_payload(code, theirs.reason)) == (theirs.code, theirs.reason)


def test_a_close_frame_may_be_empty() -> None:
    assert parse_close(b"") == (1005, "")


@pytest.mark.parametrize(
    ("payload", "close_code"),
    [(b"\x03", 1002), (b"\x03\xed", 1002), (b"\x03\xe8\xff", 1007)],
    ids=["short", "reserved", "not UTF-8"],
)
def test_a_malformed_close_frame_is_refused(payload: bytes, close_code: int) -> None:
    with pytest.raises(RemoteProtocolError, match="close frame") as caught:
        parse_close(payload)
    assert caught.value.details == {"close_code": close_code}


def test_a_long_reason_is_cut_at_a_character() -> None:
    code, reason = parse_close(close_payload(1000, "ü" * 100))
    assert (code, reason) == (1000, "ü" * 61)


def test_a_code_that_may_not_be_sent_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="close code 1006 may not be sent"):
        close_payload(1006)
