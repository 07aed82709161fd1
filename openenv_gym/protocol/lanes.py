"""Numbers of lanes, and columns: the values of one space for n lanes, laid out as :mod:`.columns` says.

Values that have exactly the space's form are written raw. Any other value is *admitted* first: passed on as
it is when the space has such values, cast where observations allow it, refused otherwise; then the column
holds self-described values. What a peer sent so is admitted again when it is read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import InvalidActionError, RemoteProtocolError, ValueNotCarriedError
from .values import pack

__all__ = ["Batch", "Column", "Path", "Warn", "lane_bytes", "read_lanes", "spell"]

#: What an error calls a value: a text, or where it is kept and its key there.
Path = str | tuple[Any, Any]
Warn = Callable[[str], None]
#: How many values a batch holds (``None``: any number, it has no parts), and the batch or its column.
Batch = tuple[int | None, Any]

_VALUES = "values"
_REFUSALS = (ValueNotCarriedError, InvalidActionError)
_MALFORMED = (ValueError, TypeError, KeyError, IndexError, OverflowError)


def spell(path: Path) -> str:
    """Return ``path`` as text, like ``obs['x'][2]``."""
    steps = []
    while isinstance(path, tuple):
        path, key = path
        steps.append(f"[{key!r}]")
    return path + "".join(reversed(steps))


def lane_bytes(lanes: Sequence[int] | np.ndarray[Any, Any]) -> bytes:
    """Return numbers of lanes as they travel."""
    return np.array(lanes, "<u4").tobytes()


def read_lanes(data: bytes) -> list[int]:
    """Return the lanes in ``data``; raises ``ValueError`` when its length is wrong."""
    lanes: list[int] = np.frombuffer(data, "<u4").tolist() if data else []
    return lanes


class Column(ABC):
    """Writes and reads the values of one space.

    Args:
        space: The space.
        actions: Whether the values are actions, which are never cast, rather than observations.
    """

    def __init__(self, space: Any, actions: bool) -> None:
        self.space = space
        self.actions = actions
        #: Whether a batch in exact form splits into values in exact form.
        self.direct = True

    def encode_one(self, value: Any, path: Path = "value", warn: Warn | None = None) -> Any:
        """Return the column of one lane, packed.

        Args:
            value: The lane's value.
            path: What an error calls it.
            warn: Told, for observations, what was cast to the space's dtype; ``None`` refuses to cast.

        Raises:
            ValueNotCarriedError: An observation does not fit the space.
            InvalidActionError: An action does not fit the space.
        """
        return self.write([value], path, warn)

    def decode_one(self, column: Any) -> Any:
        """Return the value in the column (unpacked) of one lane; it shares no memory.

        Raises:
            RemoteProtocolError: The column is malformed.
        """
        return self.decode(column, 1)[0]

    def encode(self, values: Sequence[Any], path: Path = "value", warn: Warn | None = None) -> Any:
        """Return the column of several lanes, packed; arguments and errors as for :meth:`encode_one`."""
        try:
            return self.write(values, path, warn)
        except _REFUSALS:
            if len(values) > 1:
                for lane, value in enumerate(values):
                    self.write([value], f"lane {lane}: {spell(path)}", warn)
            raise

    def decode(self, column: Any, n: int) -> list[Any]:
        """Return the values of ``n`` lanes; none shares memory with another.

        Raises:
            RemoteProtocolError: The column is malformed or not of ``n`` lanes.
        """
        try:
            return self.read(column, n)
        except _MALFORMED as exc:
            raise self._malformed(exc) from exc

    def encode_batch(self, batch: Any, n: int, path: Path = "value", warn: Warn | None = None) -> Any:
        """Return the column of ``n`` lanes from a batch.

        The batch is laid out as ``gymnasium.vector.utils.batch_space`` says; other arguments and errors are
        those of :meth:`encode_one`.
        """
        try:
            written = self.write_batch(batch, path, None) if self.direct else None
            if written is not None and written[0] == n:
                return written[1]
        except _REFUSALS:
            pass  # lane by lane the error can name its lane
        try:
            values = self.split(batch, n)
        except _MALFORMED as exc:
            raise self._refusal(path, f"is no batch of {n} values: {exc}") from exc
        return self.encode(values, path, warn)

    def view_batch(self, batch: Any, n: int) -> memoryview | None:
        """Return a raw column of ``n`` lanes that is the memory of the batch itself.

        ``None``: that cannot be done with this batch; :meth:`encode_batch` can, or says what is wrong.
        """
        return None

    def decode_into(self, column: Any, n: int, out: Any, start: int = 0) -> Any:
        """Write ``n`` lanes into a batch, from lane ``start`` on.

        Args:
            column: The column, unpacked.
            n: How many lanes it has.
            out: The batch, as ``gymnasium.vector.utils.create_empty_array`` makes it. Its arrays are written
                in place; its tuples are replaced.
            start: The first lane to write.

        Returns:
            The batch with these lanes; use it in place of ``out``.

        Raises:
            RemoteProtocolError: The column is malformed or not of ``n`` lanes.
        """
        try:
            return self.put(column, n, out, start)
        except _MALFORMED as exc:
            raise self._malformed(exc) from exc

    def decode_batch(self, column: Any, n: int) -> Any:
        """Return the lanes of a raw column of arrays as a batch with memory of its own, in one step.

        ``None``: that cannot be done with this column; :meth:`decode_into` can, or says what is wrong.
        """
        return None

    def write(self, values: Sequence[Any], path: Path, warn: Warn | None) -> Any:
        """Return the column of ``values``."""
        column = self.exact(values)
        return self.general(values, path, warn) if column is None else column

    def read(self, column: Any, n: int) -> list[Any]:
        """Return ``n`` values; raises ``ValueError`` and the like for a malformed column."""
        if type(column) is dict:
            return self.read_general(column, n)
        return self.read_exact(column, n)

    @abstractmethod
    def exact(self, values: Sequence[Any]) -> Any:
        """Return the raw column of ``values``, or ``None`` when one has not exactly the space's form."""

    @abstractmethod
    def read_exact(self, column: Any, n: int) -> list[Any]:
        """Read a raw column."""

    @abstractmethod
    def admit(self, value: Any, path: Path, warn: Warn | None) -> Any:
        """Return ``value`` as it shall travel, self-described; raises when it may not."""

    def general(self, values: Sequence[Any], path: Path, warn: Warn | None) -> Any:
        """Return a column of self-described values, or a raw one where casts made that possible."""
        admitted = [self.admit(value, path, warn) for value in values]
        column = self.exact(admitted)
        if column is not None:
            return column
        try:
            return {_VALUES: [pack(value, spell(path)) for value in admitted]}
        except ValueNotCarriedError as exc:
            if self.actions:
                raise InvalidActionError(exc.message, **exc.details) from exc
            raise

    def read_general(self, column: dict[Any, Any], n: int) -> list[Any]:
        """Read a column of self-described values, each of which must be admitted without a cast."""
        values = column.get(_VALUES)
        if len(column) != 1 or type(values) is not list or len(values) != n:
            raise ValueError(f"a map with an array of {n} values was due")
        for value in values:
            self.admit(value, "value", None)
        return values

    # Batches. What follows holds for spaces whose batch is a tuple of values.

    def write_batch(self, batch: Any, path: Path, warn: Warn | None) -> Batch | None:
        """Return size and column of a batch in exactly the space's form; else ``None``, or it raises."""
        return (len(batch), self.write(batch, path, warn)) if type(batch) is tuple else None

    def read_batch(self, column: Any, n: int) -> Any:
        """Return the batch that :meth:`write_batch` wrote; it owns its memory."""
        return tuple(self.read(column, n))

    def admit_batch(self, batch: Any, path: Path, warn: Warn | None) -> Batch:
        """Return size and batch, as it shall travel self-described; raises when it may not."""
        if not isinstance(batch, tuple):
            raise self._refusal(path, f"is a {type(batch).__name__}; a tuple of values was due")
        return len(batch), tuple(self.admit(value, (path, at), warn) for at, value in enumerate(batch))

    def split(self, batch: Any, n: int) -> list[Any]:
        """Return the ``n`` values of ``batch`` as Gymnasium's ``iterate`` gives them."""
        values = list(batch)
        if len(values) != n:
            raise ValueError(f"it holds {len(values)}")
        return values

    def put(self, column: Any, n: int, out: Any, start: int) -> Any:
        """Write ``n`` values into the batch ``out``."""
        return self.place(self.read(column, n), out, start)

    def place(self, values: Sequence[Any], out: Any, start: int) -> Any:
        """Write values into the batch ``out``."""
        if out is None:  # Gymnasium's empty batch of a space it does not know
            out = (None,) * start
        return (*out[:start], *values, *out[start + len(values) :])

    def _refusal(self, path: Path, why: str) -> ValueNotCarriedError | InvalidActionError:
        where = spell(path)
        space = str(self.space)
        text = f"{where} {why}; its space is {space if len(space) <= 200 else space[:197] + '...'}"
        return (InvalidActionError if self.actions else ValueNotCarriedError)(text, path=where)

    def _malformed(self, exc: Exception) -> RemoteProtocolError:
        what = "actions" if self.actions else "observations"
        return RemoteProtocolError(f"the peer's {what} do not fit {str(self.space)[:200]}: {exc}")
