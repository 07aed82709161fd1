from __future__ import annotations

from typing import Any

import pytest

from openenv_gym.client.attributes import RemoteAttributes, RemoteMethod
from openenv_gym.errors import ForbiddenError, RemoteEnvironmentError, ValueNotCarriedError
from openenv_gym.protocol.messages import Call, Get, Set, Value


class Holder(RemoteAttributes):
    """Has its public names in a dict, which stands for the remote environment."""

    local: str = "of the class"

    def __init__(self, **names: Any) -> None:
        self._names = names
        self._asked: list[tuple[Any, ...]] = []

    def _ask(self, kind: type, *args: Any) -> Any:
        self._asked.append((kind, *args))
        name = args[0]
        if name == "forbidden":
            raise ForbiddenError("attribute access is off")
        if kind is Set:
            self._names[name] = args[1][0]
            return Value(1, [None])
        if name not in self._names:
            raise RemoteEnvironmentError(f"no {name}", type="AttributeError", traceback="")
        value = self._names[name]
        if isinstance(value, Exception):
            raise value
        if kind is Call:
            return Value(1, [value(*args[1], **args[2])])
        return Value(1, [None], True) if callable(value) else Value(1, [value])


def test_a_name_is_read_remotely() -> None:
    holder = Holder(gravity=9.8)
    assert holder.gravity == 9.8
    assert holder._asked == [(Get, "gravity")]


def test_hasattr_tells_what_the_environment_has() -> None:
    holder = Holder(gravity=9.8)
    assert hasattr(holder, "gravity")
    assert not hasattr(holder, "levity")
    with pytest.raises(AttributeError, match=r"neither 'Holder' nor the remote environment has .* 'levity'"):
        _ = holder.levity


def test_where_access_is_off_nothing_is_there() -> None:
    with pytest.raises(AttributeError, match="'forbidden': attribute access is off"):
        _ = Holder().forbidden


def test_what_a_property_raises_is_raised() -> None:
    holder = Holder(broken=RemoteEnvironmentError("boom", type="ZeroDivisionError", traceback=""))
    with pytest.raises(RemoteEnvironmentError, match="boom"):
        _ = holder.broken


@pytest.mark.parametrize("name", ["_private", "__array_interface__", "_repr_html_"])
def test_private_names_are_not_asked_for(name: str) -> None:
    holder = Holder()
    assert not hasattr(holder, name)
    assert holder._asked == []


def test_a_method_comes_back_as_a_callable() -> None:
    holder = Holder(add=lambda a, b=1: a + b)
    add = holder.add
    assert isinstance(add, RemoteMethod)
    assert add.__name__ == "add"
    assert "remote method add" in repr(add)
    assert add(1) == 2
    assert add(1, b=5) == 6


def test_an_argument_that_does_not_travel_is_named() -> None:
    holder = Holder(add=lambda a: a)
    with pytest.raises(ValueNotCarriedError, match=r"add\(\) argument 0"):
        holder.add(object())
    with pytest.raises(ValueNotCarriedError, match=r"add\(key\)"):
        holder.add(key=object())


def test_an_unknown_public_name_is_set_remotely() -> None:
    holder = Holder()
    holder.gravity = 3
    assert holder._names == {"gravity": 3}
    assert "gravity" not in vars(holder)


@pytest.mark.parametrize(
    "name", ["local", "observation_space", "action_space", "metadata", "render_mode", "_x"]
)
def test_names_of_the_client_are_set_here(name: str) -> None:
    holder = Holder()
    setattr(holder, name, 3)
    assert vars(holder)[name] == 3
    assert holder._asked == []


def test_a_value_that_does_not_travel_is_not_set_anywhere() -> None:
    holder = Holder()
    with pytest.raises(ValueNotCarriedError, match="gravity"):
        holder.gravity = object()
    assert holder._names == {}
