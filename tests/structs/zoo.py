"""Structs with a field of every kind."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from openenv_gym.models import Action, Array, Observation

__all__ = ["Cat", "Colour", "Dog", "Everything", "Hint", "Level", "Point", "Say", "Size", "Tree", "View"]


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Point(msgspec.Struct):
    x: float
    y: float = 0.0


@dataclasses.dataclass
class Size:
    width: int
    height: int = 1


class Cat(msgspec.Struct, tag="cat"):
    lives: Annotated[int, Meta(ge=0, le=9)]


class Dog(msgspec.Struct, tag="dog"):
    name: str


class Tree(msgspec.Struct):
    value: float
    children: list[Tree] = []


class Say(Action):
    message: str


class Hint(Observation):
    number: Annotated[int, Meta(ge=1, le=100)] = 1


class View(Observation):
    image: Annotated[np.ndarray, Array("uint8", (2, 3))]
    depth: Annotated[np.ndarray, Array("float32", (-1, 2), low=0)] | None = None


class Everything(msgspec.Struct, kw_only=True, rename="camel"):
    flag: bool = False
    bounded_int: Annotated[int, Meta(ge=1, le=100, description="a number")] = 1
    number: float = 0.0
    text: Annotated[str, Meta(min_length=1, max_length=5)] = "a"
    pattern: Annotated[str, Meta(pattern="^a+$")] = "a"
    data: bytes = b""
    anything: Any = None
    maybe: float | None = None
    mixed: int | str | None = None
    colour: Colour = Colour.RED
    level: Level = Level.HIGH
    literal: Literal["a", 3, None] = "a"
    point: Point | None = None
    size: Size = msgspec.field(default_factory=lambda: Size(2))
    pet: Cat | Dog | None = None
    tree: Tree | None = None
    numbers: list[float] = []
    pairs: tuple[tuple[int, float], ...] = ()
    empty: tuple[()] = ()
    table: dict[str, list[float]] = {}
    by_number: dict[int, str] = {}
    unique: set[int] = set()
    time: dt.datetime | None = None
    day: dt.date | None = None
    span: dt.timedelta | None = None
    key: uuid.UUID | None = None
    price: Decimal | None = None
    array: Annotated[np.ndarray, Array("float32", (2,))] | None = None
