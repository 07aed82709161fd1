from __future__ import annotations

import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Frame, Opcode

from openenv_gym.errors import MessageTooLargeError, RemoteProtocolError
from openenv_gym.protocol.deflate import deflate, inflate

payloads = st.one_of(st.binary(max_size=500), st.builds(bytes, st.integers(0, 100_000)))


def _oracle() -> PerMessageDeflate:
    return PerMessageDeflate(True, True, 15, 15)


@given(payloads)
def test_round_trip(payload: bytes) -> None:
    assert inflate(deflate(payload)) == payload
    assert inflate(bytearray(deflate(payload)), max(1, len(payload))) == payload


@given(payloads)
def test_websockets_reads_it_and_is_read(payload: bytes) -> None:
    packed = Frame(Opcode.BINARY, deflate(payload), rsv1=True)
    assert _oracle().decode(packed).data == payload
    assert inflate(bytes(_oracle().encode(Frame(Opcode.BINARY, payload)).data)) == payload


def test_a_last_block_of_the_sender_is_allowed() -> None:
    packer = zlib.compressobj(wbits=-15)
    assert inflate(packer.compress(b"Hello") + packer.flush() + b"\x00") == b"Hello"


@pytest.mark.parametrize("size", [999, 1001])
def test_limit_counts_the_inflated_message(size: int) -> None:
    packed = deflate(bytes(size))
    if size <= 1000:
        assert inflate(packed, 1000) == bytes(size)
        return
    with pytest.raises(MessageTooLargeError, match="more than the 1000 bytes") as caught:
        inflate(packed, 1000)
    assert caught.value.details == {"size": 1001, "limit": 1000, "option": "max_message_size"}


def test_a_bomb_takes_no_memory() -> None:
    packed = deflate(bytes(50_000_000))
    tracemalloc.start()
    with pytest.raises(MessageTooLargeError):
        inflate(packed, 1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * len(packed) + 200_000


@pytest.mark.parametrize(
    "packed", [b"\xff\xff", deflate(bytes(range(256)))[:-3], b"\x01\x00\x00\xff\xffmore"], ids=repr
)
def test_what_is_no_compressed_message_is_refused(packed: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="cannot be inflated") as caught:
        inflate(packed)
    assert caught.value.details == {"close_code": 1007}


@given(st.binary(max_size=100))
def test_any_bytes_are_a_message_or_a_typed_error(packed: bytes) -> None:
    try:
        message = inflate(packed, 10_000)
    except (MessageTooLargeError, RemoteProtocolError):
        return
    assert len(message) <= 10_000
