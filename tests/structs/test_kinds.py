"""Kinds of values, and the walk over them."""

from __future__ import annotations

from openenv_gym.structs.kinds import Either, Field, Fixed, Items, Mapping, Object, Plain, walk


def test_the_walk_sees_every_kind_once_even_in_a_circle() -> None:
    leaf = Plain("integer")
    tree = Object("Tree", None)
    options = Either((Items(tree), Mapping(leaf), Fixed((leaf,))))
    tree.fields = (Field("a", options), Field("b", leaf))
    found = list(walk(tree))
    assert len(found) == len({id(one) for one in found}) == 6
    assert {type(one) for one in found} == {Object, Either, Items, Mapping, Fixed, Plain}
