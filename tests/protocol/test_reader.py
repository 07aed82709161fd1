from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Frame as TheirFrame
from websockets.frames import Opcode
from websockets.protocol import CLIENT, SERVER, Protocol

from openenv_gym.errors import LocalProtocolError, MessageTooLargeError, RemoteProtocolError
from openenv_gym.protocol import reader as module
from openenv_gym.protocol.frames import (
    BINARY,
    CLOSE,
    CONT,
    PING,
    PONG,
    TEXT,
    Frame,
    frame,
    parse_close,
)
from openenv_gym.protocol.reader import FrameReader

Event = bytes | bytearray | Frame


def feed(reader: FrameReader, chunks: Iterable[bytes], cap: int = 1 << 30) -> list[Event]:
    """Give ``chunks`` to ``reader`` as a socket would, at most ``cap`` bytes at a time."""
    events: list[Event] = []
    for chunk in chunks:
        rest = memoryview(chunk)
        while rest:
            size = min(len(reader.target), len(rest), cap)
            assert size, "the reader asked for bytes and gave no room for them"
            reader.target[:size] = rest[:size]
            reader.arrived = size
            rest = rest[size:]
            while (event := reader.next()) is not None:
                events.append(event)
    return events


def pattern(size: int) -> bytes:
    return bytes(i % 251 for i in range(size))


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(ends)]


@st.composite
def streams(draw: st.DrawFn) -> list[TheirFrame]:
    """Frames of whole messages, control frames anywhere between them and their fragments."""
    frames: list[TheirFrame] = []
    for _ in range(draw(st.integers(1, 5))):
        opcode = draw(st.sampled_from([Opcode.BINARY, Opcode.BINARY, Opcode.TEXT]))
        sizes = st.sampled_from([0, 1, 5, 40, 125, 126, 1000, 4080, 4096, 5000, 9000, 32_764, 32_768, 66_000])
        parts = draw(st.lists(sizes, min_size=1, max_size=3))
        for number, size in enumerate(parts):
            if draw(st.integers(0, 3)) == 0:
                control = draw(st.sampled_from([Opcode.PING, Opcode.PONG]))
                frames.append(TheirFrame(control, draw(st.binary(max_size=125))))
            kind = opcode if number == 0 else Opcode.CONT
            frames.append(TheirFrame(kind, pattern(size), fin=number == len(parts) - 1))
    return frames


def theirs(data: bytes, client: bool, compression: bool = False) -> tuple[list[tuple[int, bytes]], bool]:
    """Return what websockets makes of ``data``: events up to a close frame, and whether it refused it."""
    protocol = Protocol(CLIENT if client else SERVER, max_size=None)
    if compression:
        protocol.extensions = [PerMessageDeflate(True, True, 15, 15)]
    protocol.receive_data(data)
    events: list[tuple[int, bytes]] = []
    kind, parts = 0, b""
    for event in protocol.events_received():
        assert isinstance(event, TheirFrame)
        if event.opcode >= CLOSE:
            events.append((int(event.opcode), bytes(event.data)))
            if event.opcode == CLOSE:
                return events, protocol.parser_exc is not None
            continue
        if event.opcode != CONT:
            kind, parts = int(event.opcode), b""
        parts += bytes(event.data)
        if event.fin:
            events.append((kind, parts))
    return events, protocol.parser_exc is not None and not isinstance(protocol.parser_exc, EOFError)


def ours(chunks: list[bytes], reader: FrameReader) -> tuple[list[tuple[int, bytes]], bool]:
    """Return the same of our reader."""
    events: list[tuple[int, bytes]] = []
    try:
        for chunk in chunks:
            for event in feed(reader, [chunk]):
                kind, payload = event if isinstance(event, Frame) else (BINARY, bytes(event))
                if kind == CLOSE:
                    parse_close(payload)
                events.append((kind, payload))
                if kind == CLOSE:
                    return events, False
    except RemoteProtocolError:
        return events, True
    return events, False


@given(streams(), st.booleans(), st.lists(st.integers(0, 100_000), max_size=6), st.integers(1, 9000))
def test_reads_what_websockets_reads_however_it_is_split(
    frames: list[TheirFrame], client: bool, places: list[int], cap: int
) -> None:
    data = b"".join(item.serialize(mask=not client) for item in frames)
    expected, refused = theirs(data, client)
    assert not refused
    reader = FrameReader(client=client)
    events = feed(reader, cut(data, places), cap)
    assert [tuple(e) if isinstance(e, Frame) else (BINARY, e) for e in events] == expected
    assert reader.target is reader.buffer
    assert reader.end == 0


@given(st.lists(st.integers(0, 300), min_size=1, max_size=20), st.booleans())
def test_reads_bytes_one_by_one(sizes: list[int], client: bool) -> None:
    data = b"".join(frame(BINARY, pattern(size), masked=not client) for size in sizes)
    assert feed(FrameReader(client=client), [data], cap=1) == [pattern(size) for size in sizes]


@given(streams(), st.integers(0, 100_000))
def test_bytes_of_the_handshake_come_first(frames: list[TheirFrame], place: int) -> None:
    data = b"".join(item.serialize(mask=True) for item in frames)
    initial, rest = data[: place % (len(data) + 1)], data[place % (len(data) + 1) :]
    reader = FrameReader(client=False, initial=initial)
    events: list[Event] = []
    while (event := reader.next()) is not None:
        events.append(event)
    events += feed(reader, [rest])
    assert [tuple(e) if isinstance(e, Frame) else (BINARY, e) for e in events] == theirs(data, False)[0]


@given(
    streams(),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 400), st.sampled_from("fid"), st.integers(0, 255)), max_size=4),
    st.booleans(),
)
def test_mutated_streams_are_judged_as_websockets_judges_them(
    frames: list[TheirFrame], client: bool, mutations: list[tuple[int, str, int]], compression: bool
) -> None:
    mutated = bytearray(b"".join(item.serialize(mask=not client) for item in frames))
    for place, kind, value in mutations:
        at = place % len(mutated) if mutated else 0
        mutated[at : at + (kind != "i")] = b"" if kind == "d" else bytes([value])
    data = bytes(mutated)
    expected, they_refuse = theirs(data, client, compression)
    events, we_refuse = ours(
        cut(data, range(0, len(data), 7)), FrameReader(client=client, compression=compression)
    )
    if they_refuse:
        assert we_refuse
    if not we_refuse:
        assert events == expected
    else:
        # Headers that are too long, and wrong ones before their payload is here, are refused by us alone.
        assert events == expected[: len(events)]


@given(st.lists(st.binary(max_size=40), max_size=20), st.booleans(), st.booleans())
def test_any_bytes_are_events_or_a_typed_error(chunks: list[bytes], client: bool, compression: bool) -> None:
    reader = FrameReader(client=client, max_message=10_000, compression=compression)
    try:
        events = feed(reader, chunks)
    except (RemoteProtocolError, MessageTooLargeError):
        return
    assert sum(len(e.payload if isinstance(e, Frame) else e) for e in events) <= 10_000 * len(events)


def head(first: int, second: int, rest: bytes = b"") -> bytes:
    return bytes([first, second]) + rest


BROKEN = {
    "masked": head(0x82, 0x80),
    "reserved bit 1": head(0xC2, 0),
    "reserved bit 2": head(0xA2, 0),
    "reserved bit 3": head(0x92, 0),
    "opcode 3": head(0x83, 0),
    "opcode 11": head(0x8B, 0),
    "fragmented ping": head(0x09, 0),
    "long ping": head(0x89, 126),
    "continuation of nothing": head(0x80, 0),
    "message inside a message": head(0x02, 1, b"a") + head(0x82, 0),
    "long form of 125": head(0x82, 126, struct.pack(">H", 125)),
    "longer form of 65535": head(0x82, 127, struct.pack(">Q", 65535)),
    "size with its highest bit": head(0x82, 127, struct.pack(">Q", 1 << 63)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_frames_are_refused(name: str) -> None:
    with pytest.raises(RemoteProtocolError, match="the connection is closed") as caught:
        feed(FrameReader(client=True), [BROKEN[name]])
    assert caught.value.details["close_code"] == 1002


def test_a_server_takes_masked_frames_only() -> None:
    with pytest.raises(RemoteProtocolError, match="not masked"):
        feed(FrameReader(client=False), [frame(BINARY, b"abcdef", masked=False)])


def test_a_continuation_must_not_say_that_it_is_compressed() -> None:
    data = frame(BINARY, b"a", masked=False, fin=False) + head(0xC0, 0)
    with pytest.raises(RemoteProtocolError, match="reserved bits"):
        feed(FrameReader(client=True, compression=True), [data])


@given(st.lists(st.integers(0, 30_000), min_size=1, max_size=4), st.integers(1, 3), st.booleans())
def test_compressed_messages_of_websockets_are_read(sizes: list[int], pieces: int, client: bool) -> None:
    peer = Protocol(SERVER if client else CLIENT)
    peer.extensions = [PerMessageDeflate(True, True, 15, 15)]
    for size in sizes:
        payload = pattern(size)
        step = size // pieces + 1
        parts = [payload[at : at + step] for at in range(0, max(size, 1), step)]
        peer.send_binary(parts[0], fin=len(parts) == 1)
        for number, part in enumerate(parts[1:], 2):
            peer.send_continuation(part, fin=number == len(parts))
    data = b"".join(peer.data_to_send())
    reader = FrameReader(client=client, compression=True, max_message=30_000)
    assert feed(reader, [data], cap=777) == [pattern(size) for size in sizes]


@pytest.mark.parametrize("client", [True, False])
@pytest.mark.parametrize("size", [11, 5000, 100_000])
@pytest.mark.parametrize("fragments", [1, 3])
def test_a_message_over_the_limit_is_dropped_and_the_next_is_read(
    client: bool, size: int, fragments: int
) -> None:
    part = frame(BINARY, pattern(size), masked=not client, fin=fragments == 1)
    data = part + frame(PING, b"p", masked=not client)
    for number in range(1, fragments):
        data += frame(CONT, pattern(size), masked=not client, fin=number == fragments - 1)
    data += frame(BINARY, b"next", masked=not client)
    reader = FrameReader(client=client, max_message=10)
    events: list[Event] = []
    refused = []
    for at in range(0, len(data), 50):
        rest = data[at : at + 50]
        while True:
            try:
                events += feed(reader, [rest])
                break
            except MessageTooLargeError as exc:
                refused.append(exc)
                rest = b""
                while (event := reader.next()) is not None:
                    events.append(event)
    assert events == [Frame(PING, b"p"), b"next"]
    assert [exc.details["size"] for exc in refused] == [size]
    assert refused[0].details["limit"] == 10


def test_fragments_together_must_not_exceed_the_limit() -> None:
    reader = FrameReader(client=True, max_message=1000)
    first = frame(BINARY, pattern(600), masked=False, fin=False)
    assert feed(reader, [first]) == []
    with pytest.raises(MessageTooLargeError) as caught:
        feed(reader, [frame(CONT, pattern(401), masked=False)])
    assert caught.value.details["size"] == 1001
    assert feed(reader, [frame(BINARY, pattern(1000), masked=False)]) == [pattern(1000)]


@pytest.mark.parametrize("limit", [0, 1 << 40])
def test_a_header_that_lies_takes_little_memory(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TRUSTED", 10_000)
    reader = FrameReader(client=True, max_message=limit)
    tracemalloc.start()
    assert feed(reader, [head(0x82, 127, struct.pack(">Q", 1 << 39)), bytes(15_000)]) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("client", [True, False])
def test_a_large_message_grows_as_it_arrives(client: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TRUSTED", 5000)
    payload = pattern(123_456)
    data = frame(BINARY, payload, masked=not client) + frame(BINARY, b"next", masked=not client)
    assert feed(FrameReader(client=client), [data], cap=999) == [payload, b"next"]


def test_a_large_message_is_received_in_place() -> None:
    reader = FrameReader(client=True)
    payload = pattern(100_000)
    data = frame(BINARY, payload, masked=False)
    assert feed(reader, [data[:20]]) == []
    assert len(reader.target) == len(data) - 20, "the target takes the rest of the message and no more"
    reader.target[:] = data[20:]
    reader.arrived = len(data) - 20
    message = reader.next()
    assert message == payload
    assert isinstance(message, bytearray)
    message += b"free to grow"


def test_control_frames_come_between_fragments() -> None:
    data = [
        frame(TEXT, b"a", masked=True, fin=False),
        frame(PONG, masked=True),
        frame(CONT, b"b", masked=True),
        frame(CLOSE, b"\x03\xe8", masked=True),
    ]
    assert feed(FrameReader(client=False), data) == [
        Frame(PONG, b""),
        Frame(TEXT, b"ab"),
        Frame(CLOSE, b"\x03\xe8"),
    ]


def test_a_client_takes_the_results_of_many_lanes_at_once() -> None:
    reader = FrameReader(client=True)
    data = frame(BINARY, pattern(32_764), masked=False)
    assert len(data) == len(reader.target) == 32_768
    reader.target[:] = data
    reader.arrived = len(data)
    assert reader.next() == pattern(32_764)
    assert len(FrameReader(client=False).target) == 4096


def test_unread_gives_back_what_was_not_looked_at() -> None:
    first, second = frame(BINARY, b"one", masked=True), frame(BINARY, b"two", masked=True)
    reader = FrameReader(client=False, initial=first + second + second[:3])
    assert reader.next() == b"one"
    assert reader.unread() == second + second[:3]


@pytest.mark.parametrize(
    ("initial", "limit"),
    [
        (frame(BINARY, bytes(40_000), masked=False)[:100], 0),
        (frame(BINARY, b"a", masked=False, fin=False), 0),
        (frame(BINARY, bytes(90), masked=False)[:50], 10),
    ],
    ids=["large message", "fragments", "dropped message"],
)
def test_unread_refuses_to_forget_half_a_message(initial: bytes, limit: int) -> None:
    reader = FrameReader(client=True, initial=initial, max_message=limit)
    try:
        assert reader.next() is None
    except MessageTooLargeError:
        assert reader.next() is None
    with pytest.raises(LocalProtocolError, match="half read"):
        reader.unread()


def test_an_interrupted_reader_reads_on_or_says_that_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> bytes:
        raise KeyboardInterrupt

    reader = FrameReader(client=False)
    for payload in (b"abc", bytes(200)):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(module, "apply_mask", interrupt)
            feed(reader, [frame(BINARY, payload, masked=True)])
        assert reader.next() == payload
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, "apply_mask", interrupt)
        feed(reader, [frame(BINARY, bytes(5000), masked=True)])
    with pytest.raises(LocalProtocolError, match="connect again"):
        reader.next()


@pytest.mark.parametrize("client", [True, False])
@pytest.mark.parametrize("size", [126, 300, 4088])
def test_the_limit_holds_for_messages_of_middle_size(client: bool, size: int) -> None:
    data = frame(BINARY, bytes(size), masked=not client)
    assert feed(FrameReader(client=client, max_message=size), [data]) == [bytes(size)]
    with pytest.raises(MessageTooLargeError):
        feed(FrameReader(client=client, max_message=size - 1), [data])


@pytest.mark.parametrize("client", [True, False])
def test_a_frame_of_middle_size_and_what_follows_it_are_told_apart(client: bool) -> None:
    first, second = (frame(BINARY, bytes([at] * 200), masked=not client) for at in (1, 2))
    for cut in (len(first) - 1, len(first), len(first) + 1, len(first) + 9):
        pieces = [(first + second)[:cut], (first + second)[cut:]]
        assert feed(FrameReader(client=client), pieces) == [bytes([1] * 200), bytes([2] * 200)]
