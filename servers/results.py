"""What jobs of lanes came to."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Results"]


@dataclass(slots=True)
class Results:
    """Results of jobs, in some order.

    Attributes:
        lanes: The lanes whose jobs returned.
        values: What they returned.
        failed: The lanes whose jobs raised, and what.
    """

    lanes: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    failed: list[tuple[int, BaseException]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.lanes) + len(self.failed)

    def __iadd__(self, other: Results) -> Results:
        self.lanes += other.lanes
        self.values += other.values
        self.failed += other.failed
        return self

    def everyone(self) -> list[int]:
        """Return all lanes, those that failed last."""
        return self.lanes + [lane for lane, _ in self.failed]

    def add(self, lane: int, value: Any) -> None:
        """Note what the job of a lane returned."""
        self.lanes.append(lane)
        self.values.append(value)

    def take(self, lanes: Collection[int]) -> Results:
        """Remove the results of these lanes and return them."""
        taken, kept = Results(), Results()
        for lane, value in zip(self.lanes, self.values, strict=True):
            (taken if lane in lanes else kept).add(lane, value)
        for lane, exc in self.failed:
            (taken if lane in lanes else kept).failed.append((lane, exc))
        self.lanes, self.values, self.failed = kept.lanes, kept.values, kept.failed
        return taken

    def in_order(self) -> Results:
        """Return the same results in order of lanes."""
        order = sorted(range(len(self.lanes)), key=self.lanes.__getitem__)
        failed = sorted(self.failed, key=lambda item: item[0])
        return Results([self.lanes[at] for at in order], [self.values[at] for at in order], failed)
