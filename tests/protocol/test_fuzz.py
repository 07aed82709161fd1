"""Frames from a hostile peer: a message or one kind of error comes out, little memory goes in, none runs."""

from __future__ import annotations

import io
import json
import pickle
import random
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from openenv_gym.errors import RemoteProtocolError
from openenv_gym.protocol.codec import decode_reply, decode_request
from openenv_gym.protocol.columns import column_codec
from openenv_gym.protocol.messages import Hello, Observation, Reply, Request, Reset, Step, Transition
from openenv_gym.spaces import Json, Unicode
from tests.support.handwritten import Ext, message, write

GOLDEN = Path(__file__).parent / "golden"
CASES = 5_000
#: What reading a small frame may take at most, whatever its lengths say.
ROOM = 1 << 18
#: How many times its bytes a large one may take as Python objects.
GROWTH = 100

EXECUTED: list[str] = []


class Canary:
    """Sings when somebody unpickles it."""

    def __reduce__(self) -> Any:
        return EXECUTED.append, ("unpickled",)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "a value of type")
        yield
    assert EXECUTED == []


def _golden() -> list[bytes]:
    names = ("messages", "conversation")
    rows = [row for name in names for row in json.loads((GOLDEN / f"{name}.json").read_text())]
    return [bytes.fromhex(row["bytes"]) for row in rows if "bytes" in row]


FRAMES = _golden()
VALUES = [bytes.fromhex(row["bytes"]) for row in json.loads((GOLDEN / "values.json").read_text())]
COLUMNS = [
    column_codec(space, actions=actions)
    for actions in (False, True)
    for space in (
        spaces.Box(-1, 1, (2,)),
        spaces.Box(0, 1, ()),
        spaces.Discrete(3),
        spaces.Dict(a=spaces.Discrete(2), b=spaces.Sequence(spaces.MultiBinary(2), stack=True)),
        spaces.Tuple((spaces.Text(3), spaces.OneOf((spaces.Discrete(2), spaces.Box(0, 1, (0,)))))),
        spaces.Graph(spaces.Box(0, 1, (1,)), spaces.Discrete(2)),
        Unicode(9),
        Json(),
    )
]


def _read(frame: bytes) -> list[Any]:
    """Return the messages that the two sides see in a frame; columns are read with every kind of space."""
    seen = []
    for decode, union in ((decode_request, Request), (decode_reply, Reply)):
        try:
            read: Any = decode(frame)
        except RemoteProtocolError:
            continue
        assert isinstance(read, union)
        seen.append(read)
        if isinstance(read, Step):
            _read_column(read.actions)
        elif isinstance(read, Observation | Transition):
            _read_column(read.observations)
    return seen


def _read_column(column: Any) -> None:
    for codec in COLUMNS:
        for lanes in (1, 2):
            try:
                assert len(codec.decode(column, lanes)) == lanes
            except RemoteProtocolError:
                continue


def _peak(frame: bytes) -> int:
    """Return how many bytes reading takes at most at any moment."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    _read(frame)
    return tracemalloc.get_traced_memory()[1] - before


@pytest.fixture
def _traced() -> Iterator[None]:
    _read(FRAMES[0])  # what is made once is made now
    tracemalloc.start()
    yield
    tracemalloc.stop()


# -- random and mutated frames


def _noise(rng: random.Random) -> bytes:
    return rng.randbytes(rng.choice((1, 2, 5, 17, 60)))


def _flipped(rng: random.Random) -> bytes:
    frame = bytearray(rng.choice(FRAMES))
    for _ in range(rng.randint(1, 4)):
        frame[rng.randrange(len(frame))] = rng.choice(
            (rng.randrange(256), 0xC1, 0xDD, 0xDF, 0xC6, 0xC9, 0xDB)
        )
    return bytes(frame)


def _cut(rng: random.Random) -> bytes:
    frame = rng.choice(FRAMES)
    start, end = sorted((rng.randrange(len(frame) + 1), rng.randrange(len(frame) + 1)))
    return rng.choice((frame[:end], frame[:start] + frame[end:], frame[:end] + frame[start:]))


def _crossed(rng: random.Random) -> bytes:
    one, other = rng.choice(FRAMES), rng.choice((*FRAMES, *VALUES))
    at = rng.randrange(len(one) + 1)
    return one[:at] + other + one[at + rng.randrange(len(one) - at + 1) :]


#: Messages up to the field that :func:`_filled` fills.
_HEADS = [
    b"\x83" + write("type") + write(kind) + write("id") + write(7) + write(name)
    for kind, name in (
        ("reset", "seeds"),
        ("reset", "options"),
        ("step", "actions"),
        ("observation", "observations"),
    )
]


def _filled(rng: random.Random) -> bytes:
    """Return a well-formed message with a field that holds a value, whole or broken, of any kind."""
    value = bytearray(rng.choice(VALUES))
    if rng.random() < 0.6:
        value[rng.randrange(len(value))] = rng.randrange(256)
    return rng.choice(_HEADS) + value


@pytest.mark.usefixtures("_traced")
@pytest.mark.parametrize(
    "maker", [_noise, _flipped, _cut, _crossed, _filled], ids=lambda maker: maker.__name__[1:]
)
def test_thousands_of_frames_give_a_message_or_an_error(maker: Callable[[random.Random], bytes]) -> None:
    rng = random.Random(maker.__name__)
    for _ in range(CASES):
        frame = maker(rng)
        taken = _peak(frame)
        assert taken < ROOM, frame.hex()


def test_the_makers_hit_both_outcomes() -> None:
    for maker in (_flipped, _cut, _crossed, _filled):
        rng = random.Random(maker.__name__)
        outcomes = {bool(_read(maker(rng))) for _ in range(500)}
        assert outcomes == {True, False}, maker


# -- lengths that lie

_LIARS = [
    bytes.fromhex(head) + min(length, 256**size - 1).to_bytes(size, "big")
    for size, heads in ((4, ("c6", "c9", "db", "dd", "df")), (2, ("c5", "c8", "da", "dc", "de")))
    for head in heads
    for length in (2**32 - 1, 2**31, 2**31 - 1, 10**6, 65_535)
]
_PLACES = [
    b"",
    b"\x83\xa4type\xa5reset\xa2id\x01\xa7options",
    b"\x83\xa4type\xa5reset\xa2id\x01\xa5seeds",
    b"\x83\xa4type\xa5reset\xa2id\x01\xa4mask",
    b"\x83\xa4type\xa4call\xa2id\x01\xa6kwargs",
    b"\x84\xa4type\xa5value\xa2id\x01\xa8callable\xc2\xa6values",
    b"\x83\xa4type\xabobservation\xa2id\x01\xa8warnings",
    b"\x83\xa4type\xabobservation\xa2id\x01\xa6failed",
    b"\x83\xa4type\xa5error\xa4code\xa1x\xa7message",
    b"\x83\xa4type",
]


@pytest.mark.usefixtures("_traced")
@pytest.mark.parametrize("place", _PLACES, ids=lambda place: place[-8:].decode("latin-1"))
def test_a_length_that_lies_takes_no_memory(place: bytes) -> None:
    for liar in _LIARS:
        for rest in (b"", b"\x01", b"\x01" + bytes(50), b"\x0e" + bytes(50), b"\x80" * 50):
            frame = place + liar + rest
            assert _read(frame) == []
            assert _peak(frame) < ROOM, frame.hex()


def _array(dtype: str, shape: tuple[int, ...], items: bytes) -> Ext:
    dims = b"".join(dim.to_bytes(8, "little") for dim in shape)
    return Ext(14, bytes((len(dtype),)) + dtype.encode() + bytes((len(shape),)) + dims + items)


@pytest.mark.usefixtures("_traced")
@pytest.mark.parametrize(
    "array",
    [
        _array("<f4", (2**40,), b""),
        _array("<f4", (2**40, 2**40), bytes(8)),
        _array("<f8", (2**63, 2), bytes(8)),
        _array("<f4", (2**64 - 1,), bytes(4)),
        _array("<f4", (3,), bytes(8)),
        _array("|S0", (2**40,), b""),
        _array("<U0", (2**40,), b""),
        _array("<U99999999", (), b""),
        _array("<f4", (1,) * 200, bytes(4)),
        Ext(14, b""),
        Ext(14, b"\xff<f4"),
        Ext(14, b"\x03<f4\xff"),
        Ext(15, b"\x03<f4\x01" + bytes(8)),
        Ext(16, write([[2**40], []])),
        Ext(16, write([[2**40, 0, 2**40], []])),
        Ext(16, write([[3], [None]])),
    ],
    ids=str,
)
def test_an_array_that_claims_more_than_it_has_is_refused(array: Ext) -> None:
    frame = write({"type": "reset", "id": 1, "options": array})
    assert _read(frame) == []
    assert _peak(frame) < ROOM


@pytest.mark.usefixtures("_traced")
@pytest.mark.parametrize("claim", [2**31, 2**40, 2**63, 2**64 - 1, -1], ids=str)
def test_columns_that_claim_more_than_they_have_are_refused(claim: int) -> None:
    codecs = [column_codec(spaces.Sequence(spaces.Dict({}), stack=stack)) for stack in (True, False)]
    codecs += [column_codec(spaces.Sequence(space)) for space in (spaces.Tuple(()), spaces.Box(0, 1, (0, 3)))]
    codecs.append(column_codec(spaces.Graph(spaces.Box(0, 1, (0,)), spaces.Discrete(2))))
    for codec in codecs:
        for column in ([[claim, b""]], [[claim, b"\x00"]], [[claim, []]], [[claim, b"", claim, b"", None]]):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            with pytest.raises(RemoteProtocolError):
                codec.decode(column, 1)
            assert tracemalloc.get_traced_memory()[1] - before < ROOM


# -- depth and growth


def _deep(head: bytes, depth: int, tail: bytes = b"\xc0") -> bytes:
    return b"\x83\xa4type\xa5reset\xa2id\x01\xa7options" + head * depth + tail


@pytest.mark.parametrize("head", [b"\x91", b"\x81\xa0", b"\xdd\x00\x00\x00\x01", b"\x81"], ids=bytes.hex)
def test_nesting_without_end_is_refused_or_read(head: bytes) -> None:
    assert _read(_deep(head, 10))[:1] or head == b"\x81"
    for depth in (500, 5_000, 500_000):
        _read(_deep(head, depth))
    assert _read(_deep(head, 500_000)) == []


@pytest.mark.parametrize("code", [1, 2, 3, 4, 16, 17, 18])
def test_extensions_inside_one_another_end_at_their_limit(code: int) -> None:
    for depth in (10, 63, 64, 65, 500, 2_000):
        value: Any = None
        for _ in range(depth):
            value = Ext(code, write([value, value] if code == 4 and depth < 11 else [value]))
        seen = _read(write({"type": "reset", "id": 1, "options": value}))
        assert bool(seen) is (code in (1, 3) and depth < 65), depth


def test_extensions_and_arrays_inside_one_another_end() -> None:
    value: Any = None
    for _ in range(60):
        value = Ext(1, write([_nest(value, 900)]))
    assert _read(write({"type": "reset", "id": 1, "options": value})) == []


def _nest(value: Any, depth: int) -> Ext | list[Any]:
    return [Ext(1, b"\x91" * depth + write(value))]


@pytest.mark.usefixtures("_traced")
@pytest.mark.parametrize(
    "item",
    [b"\xc0", b"\x90", b"\x80", b"\xa0", b"\x81\xa0\x80", b"\xd4\x01\x90", b"\xd4\x02\x90", b"\xc4\x00"],
    ids=bytes.hex,
)
def test_what_a_frame_may_grow_to_is_bounded(item: bytes) -> None:
    count = 20_000
    frame = _deep(b"", 0, b"\xdd" + count.to_bytes(4, "big") + item * count)
    assert _peak(frame) < GROWTH * len(frame) + ROOM
    assert len(_read(frame)) == 1


# -- nothing runs


def _pickles() -> list[bytes]:
    objects = (Canary(), [Canary()], {"type": "close", "id": Canary()})
    dumps = [
        pickle.dumps(item, protocol) for item in objects for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    ]
    saved = io.BytesIO()
    np.save(saved, np.array([Canary()], object), allow_pickle=True)
    return [*dumps, saved.getvalue()]


def test_pickles_are_never_loaded() -> None:
    for data in _pickles():
        assert _read(data) == []
        held = _read(message("reset", {"id": 1, "options": data}))
        assert [item.options for item in held if isinstance(item, Reset)] == [data]
        for code in range(1, 19):
            frame = message("reset", {"id": 1, "options": Ext(code, data)})
            # Any bytes are a big integer, and the first pickles are text.
            assert _read(frame) == [] or code in (5, 6), code
        for name in (
            "|O",
            "O",
            "object",
            "<O8",
            "|V8",
            "i4,O",
            "f4",
            "[('a','O')]",
            "c",
            "|S-1",
            "builtins.eval",
        ):
            array = Ext(14, bytes((len(name),)) + name.encode() + b"\x01" + (1).to_bytes(8, "little") + data)
            assert _read(message("reset", {"id": 1, "options": array})) == [], name


def test_extensions_that_nobody_knows_are_refused_by_their_number() -> None:
    for code in (*range(-128, -1), 0, *range(19, 128)):
        for data in (b"", b"\x00", bytes(4), bytes(12), pickle.dumps(Canary())):
            with pytest.raises(RemoteProtocolError, match=rf"extension {code} is unknown"):
                decode_request(message("reset", {"id": 1, "options": [Ext(code, data)]}))


def test_names_of_types_are_text() -> None:
    opaque = Ext(17, write([f"{__name__}.Canary", "Canary()"]))
    read = decode_request(message("reset", {"id": 1, "options": opaque}))
    assert isinstance(read, Reset)
    assert (read.options.type_name, read.options.repr) == (f"{__name__}.Canary", "Canary()")


def test_a_hello_is_read_without_looking_at_what_it_asks_for() -> None:
    fields = {"session": "../../x", "token": b"", "expect": "os:system", "env_kwargs": {"__class__": "x"}}
    read = decode_request(message("hello", fields))
    assert isinstance(read, Hello)
    assert (read.session, read.expect, read.env_kwargs) == ("../../x", "os:system", {"__class__": "x"})
