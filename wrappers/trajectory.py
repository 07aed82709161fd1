"""Files of recorded trajectories: what an environment was asked and what it answered, call by call.

A file begins with the line ``openenv-trajectory 1``, where 1 is the version of the format. Records follow;
each is its length in bytes (uint32, little-endian) and a MessagePack map with the field ``type``. The first
record is the header, the others are the calls, in order:

=========== ==========================================================================================
``header``  ``kind`` (``"env"`` or ``"vector"``), ``num_envs``, ``spec`` (JSON of the ``EnvSpec``, or nil),
            ``observation_space`` and ``action_space`` (wire specs; of a vector environment the batched
            ones), ``versions`` (map of package to version)
``reset``   ``seed``, ``options``, ``result``: array of observation and info
``step``    ``action``, ``result``: array of observation, reward, terminated, truncated and info
``raised``  a call that raised: ``call`` (``"reset"`` or ``"step"``), ``given`` (array of seed and options,
            or of the action), ``error`` (text)
=========== ==========================================================================================

Values are self-described as on the wire (:mod:`openenv_gym.protocol.values`), so every bit and type is there.
A field that has its default may be left out; a record of another type or with an unknown field is an error.
Nothing in a file is executed or resolved to a class.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from openenv_gym.errors import ConfigError
from openenv_gym.protocol.extensions import Opaque
from openenv_gym.protocol.values import pack, unpack_ext

__all__ = [
    "Header",
    "RaisedCall",
    "Record",
    "ResetCall",
    "StepCall",
    "Trajectory",
    "TrajectoryWriter",
    "carried",
    "comparable",
]

_LINE = b"openenv-trajectory 1\n"
_LENGTH = struct.Struct("<I")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class _Record(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    pass


class Header(_Record, tag="header"):
    """What was recorded."""

    kind: str
    num_envs: int = 1
    spec: str | None = None
    observation_space: Any = None
    action_space: Any = None
    versions: dict[str, str] = {}


class ResetCall(_Record, tag="reset"):
    """A call of ``reset``."""

    result: list[Any]
    seed: Any = None
    options: Any = None


class StepCall(_Record, tag="step"):
    """A call of ``step``."""

    action: Any
    result: list[Any]


class RaisedCall(_Record, tag="raised"):
    """A call that raised."""

    call: str
    given: list[Any]
    error: str


Record = ResetCall | StepCall | RaisedCall


_ENCODER = msgspec.msgpack.Encoder()
_HEADER = msgspec.msgpack.Decoder(Header, ext_hook=unpack_ext)
_RECORD: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record, ext_hook=unpack_ext)
_VALUE = msgspec.msgpack.Decoder(ext_hook=unpack_ext)
_MALFORMED = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


def carried(value: Any) -> Any:
    """Return ``value`` as if it came from a file, :func:`comparable` with what does."""
    return comparable(_VALUE.decode(_ENCODER.encode(pack(value, opaque=True))))


def comparable(value: Any) -> Any:
    """Return ``value``, from a file, without the addresses of objects in memory, which mean nothing."""
    if type(value) is Opaque:
        return Opaque(value.type_name, _ADDRESS.sub("", value.repr))
    if type(value) is dict:
        return {key: comparable(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(comparable(item) for item in value)
    if isinstance(value, np.ndarray) and value.dtype == object:
        items = np.empty(value.shape, object)
        for place in np.ndindex(value.shape):
            items[place] = comparable(value[place])
        return items
    return value


class TrajectoryWriter:
    """A new file, ``<name>-<number>.trajectory`` with the first number that is free.

    Args:
        folder: Where to; made if it is not there.
        name: How file names begin.
        header: What is recorded.

    Attributes:
        path: The file.
    """

    def __init__(self, folder: str | os.PathLike[str], name: str, header: Header) -> None:
        self.path, self._file = _create(Path(folder), name)
        self._file.write(_LINE)
        self._write(header)

    def reset(self, given: list[Any], result: tuple[Any, ...]) -> None:
        """Write a call of ``reset``; ``given`` is packed seed and options."""
        seed, options = given
        self._write(ResetCall(seed=seed, options=options, result=_packed(result)))
        # What is lost in a crash is the episode it happened in, at most.
        self._file.flush()

    def step(self, given: list[Any], result: tuple[Any, ...]) -> None:
        """Write a call of ``step``; ``given`` is the packed action."""
        self._write(StepCall(action=given[0], result=_packed(result)))

    def raised(self, call: str, given: list[Any], error: BaseException) -> None:
        """Write a call that raised."""
        self._write(RaisedCall(call=call, given=given, error=f"{type(error).__name__}: {error}"))
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, record: Any) -> None:
        data = _ENCODER.encode(record)
        self._file.write(_LENGTH.pack(len(data)) + data)


class Trajectory:
    """A recorded trajectory; iterating reads its calls from the file.

    Args:
        path: The file.

    Attributes:
        header: What was recorded.
        cut: After an iteration, whether the file ends within a record, as after a crash.

    Raises:
        ConfigError: It is no file of this format and version. Iterating raises it at a malformed record.
        OSError: It cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.cut = False
        with self.path.open("rb") as file:
            self.header = self._begin(file)

    def __iter__(self) -> Iterator[Record]:
        with self.path.open("rb") as file:
            self._begin(file)
            self.cut = False
            while (data := self._next(file)) is not None:
                yield self._decoded(_RECORD, data)

    def _begin(self, file: BinaryIO) -> Header:
        line = file.readline(len(_LINE) + 20)
        if line != _LINE:
            known = line.startswith(_LINE.split(b" ")[0])
            why = f"it has version {line.split()[-1].decode(errors='replace')}" if known else "it is none"
            raise ConfigError(f"{self.path} is no trajectory of version 1: {why}")
        data = self._next(file)
        if data is None:
            raise ConfigError(f"{self.path} has no header; record it again")
        header: Header = self._decoded(_HEADER, data)
        return header

    def _next(self, file: BinaryIO) -> bytes | None:
        """Return the next record's bytes; ``None`` at the end of the file."""
        prefix = file.read(_LENGTH.size)
        if len(prefix) == _LENGTH.size:
            (size,) = _LENGTH.unpack(prefix)
            # A damaged length must not take memory.
            if size <= os.fstat(file.fileno()).st_size - file.tell():
                return file.read(size)
        self.cut = bool(prefix)
        return None

    def _decoded(self, decoder: Any, data: bytes) -> Any:
        try:
            return decoder.decode(data)
        except _MALFORMED as exc:
            raise ConfigError(f"{self.path} holds a malformed record: {exc}; record it again") from exc


def _packed(result: tuple[Any, ...]) -> list[Any]:
    return [pack(part, opaque=True) for part in result]


def _create(folder: Path, name: str) -> tuple[Path, BinaryIO]:
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:
        path = folder / f"{name}-{number}.trajectory"
        try:
            return path, path.open("xb")
        except FileExistsError:
            number += 1
