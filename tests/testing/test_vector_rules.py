from __future__ import annotations

from collections.abc import Iterator

from openenv_gym.testing.vector import RULES
from openenv_gym.testing.vector_case import Case
from openenv_gym.testing.vector_rules import rule


def test_a_rule_is_named_after_its_check() -> None:
    @rule("It is so.", remedy="make it so", rolls=False)
    def _some_thing(case: Case) -> Iterator[str]:
        yield "it is not"

    assert _some_thing[:3] == ("some-thing", "It is so.", "make it so")
    assert not _some_thing.rolls


def test_rules_have_names_of_their_own_and_say_what_to_do() -> None:
    assert len({found.name for found in RULES}) == len(RULES)
    assert all(found.text.endswith(".") and found.remedy for found in RULES)
