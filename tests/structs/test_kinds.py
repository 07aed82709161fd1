"""Kinds of values, and the walk over them."""

from __future__ import annotations

from openenv_gym.structs.kinds import Either, Field, Fixed, Items, Kind, Limits, Mapping, Object, Plain, walk


def test_the_walk_sees_every_kind_once_even_in_a_circle() -> None:
    leaf = Plain("integer")
    tree = Object("Tree", None)
    options = Either((Items(tree), Mapping(leaf), Fixed((leaf,))))
    tree.fields = (Field("a", "a", options), Field("b", "b", leaf))
    found = list(walk(tree))
    assert len(found) == len({id(one) for one in found}) == 6
    assert {type(one) for one in found} == {Object, Either, Items, Mapping, Fixed, Plain}


def test_notes_are_no_constraints() -> None:
    assert Limits(notes=(("title", "A"),)).none
    assert not Limits(ge=0).none
    assert Kind().limits.none
