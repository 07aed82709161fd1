from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from openenv_gym.errors import InvalidActionError
from openenv_gym.protocol.columns import column_codec
from openenv_gym.testing import difference
from openenv_gym.wrappers.vector.batches import (
    LastSeen,
    columns_of,
    cut,
    empty_batch,
    length_of,
    put_rows,
    runs,
    take_rows,
)

SPACES: list[spaces.Space[Any]] = [
    spaces.Box(-1, 1, (2, 3), np.float32),
    spaces.Discrete(5, start=-2),
    spaces.MultiDiscrete([3, 4]),
    spaces.MultiBinary(3),
    spaces.Text(6),
    spaces.Sequence(spaces.Discrete(3)),
    spaces.OneOf((spaces.Discrete(2), spaces.Box(0, 1, (2,)))),
    spaces.Graph(spaces.Box(0, 1, (2,)), spaces.Discrete(3)),
    spaces.Dict(a=spaces.Discrete(3), b=spaces.Tuple((spaces.Text(3), spaces.Box(0, 255, (4,), np.uint8)))),
]


def batch_of(space: spaces.Space[Any], values: list[Any]) -> Any:
    return concatenate(space, values, create_empty_array(space, len(values)))


def values_of(space: spaces.Space[Any], n: int) -> list[Any]:
    space.seed(3)
    return list(iterate(batch_space(space, n), batch_of(space, [space.sample() for _ in range(n)])))


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_batch_can_be_cut_taken_apart_and_put_together(space: spaces.Space[Any]) -> None:
    values = values_of(space, 6)
    batch = batch_of(space, values)
    assert length_of(space, batch) == 6
    assert difference(cut(space, batch, 2, 5), batch_of(space, values[2:5])) is None
    rows = [5, 0, 3]
    taken = take_rows(space, batch, rows)
    assert difference(taken, batch_of(space, [values[row] for row in rows])) is None
    out = put_rows(space, empty_batch(space, 3), [2, 0, 1], batch, rows)
    assert difference(out, batch_of(space, [values[0], values[3], values[5]])) is None


def test_the_parts_of_a_batch_are_equally_long() -> None:
    space = spaces.Dict(a=spaces.Discrete(3), b=spaces.Discrete(3))
    with pytest.raises(InvalidActionError, match="different lengths: 2, 3"):
        length_of(space, {"a": np.zeros(2), "b": np.zeros(3)})
    assert length_of(spaces.Tuple(()), ()) is None


@pytest.mark.parametrize(
    "space", [spaces.Box(-1, 1, (2,)), spaces.Dict(a=spaces.Discrete(3), b=spaces.Text(4))]
)
def test_actions_become_one_column_for_each_run(space: spaces.Space[Any]) -> None:
    codec = column_codec(space, actions=True)
    space.seed(0)
    values = [space.sample() for _ in range(5)]
    batch = concatenate(space, values, create_empty_array(space, 5))
    columns = columns_of(codec, batch, [(0, 2), (2, 5)])
    for column, part in zip(columns, (values[:2], values[2:]), strict=True):
        assert difference(codec.decode(column, len(part)), part) is None
    with pytest.raises(InvalidActionError):
        columns_of(codec, batch, [(0, 2), (2, 6)])


def test_actions_in_lists_are_taken_too() -> None:
    space = spaces.Discrete(3)
    assert take_rows(space, [0, 1, 2], [2, 0]) == (2, 0)
    assert cut(space, [0, 1, 2], 1, 3) == [1, 2]


@pytest.mark.parametrize(
    ("lanes", "due"),
    [([], []), ([4], [(0, 1)]), ([1, 2, 3, 7, 8, 0], [(0, 3), (3, 5), (5, 6)]), (range(3), [(0, 3)])],
)
def test_runs_of_neighbours(lanes: Any, due: list[tuple[int, int]]) -> None:
    assert runs(lanes) == due


class TestLastSeen:
    space = spaces.Box(0, 100, (), np.int64)
    codec = column_codec(space)

    def column(self, *values: int) -> Any:
        return self.codec.encode([np.array(value) for value in values])

    def last(self, seen: LastSeen, first: int, *lanes: int) -> list[int]:
        return [int(value) for value in seen.values(first, lanes)]

    def test_nothing_was_seen_at_first(self) -> None:
        seen = LastSeen(self.codec, 4)
        assert not seen.seen(1, 0)
        assert seen.column(0, 2) is None

    def test_neighbours_are_seen_together(self) -> None:
        seen = LastSeen(self.codec, 4)
        column = self.column(3, 4)
        seen.whole(2, 2, column)
        assert seen.seen(3, 2) and not seen.seen(0, 0)
        assert self.last(seen, 2, 3, 2) == [4, 3]
        assert seen.column(2, 2) is column
        assert seen.column(2, 1) is None

    def test_some_are_seen_later_than_the_others(self) -> None:
        seen = LastSeen(self.codec, 4)
        seen.whole(0, 4, self.column(1, 2, 3, 4))
        seen.some(0, [2, 0], self.column(30, 10))
        assert self.last(seen, 0, 0, 1, 2, 3) == [10, 2, 30, 4]
        assert seen.column(0, 4) is None
        seen.some(0, [1], self.column(20))
        assert self.last(seen, 0, 0, 1, 2, 3) == [10, 20, 30, 4]
        seen.whole(0, 4, self.column(5, 6, 7, 8))
        assert self.last(seen, 0, 0, 1, 2, 3) == [5, 6, 7, 8]

    def test_a_lane_may_be_seen_before_its_neighbours(self) -> None:
        seen = LastSeen(self.codec, 2)
        seen.some(0, [1], self.column(9))
        assert not seen.seen(0, 0)
        assert self.last(seen, 0, 1) == [9]

    def test_values_share_no_memory(self) -> None:
        codec = column_codec(spaces.Box(0, 1, (2,), np.float32))
        seen = LastSeen(codec, 2)
        seen.whole(0, 2, codec.encode([np.zeros(2, np.float32), np.zeros(2, np.float32)]))
        first, again = seen.values(0, [0])[0], seen.values(0, [0])[0]
        first[:] = 1
        assert again.tolist() == [0, 0]
