"""Which stage a greeting gets."""

from __future__ import annotations

from typing import Any

import pytest

from openenv_gym.servers.access import Access
from openenv_gym.servers.building import plan_of
from openenv_gym.servers.lane import Lane, TimedLane
from openenv_gym.servers.lanes import Group
from openenv_gym.servers.native import Native
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.stages import Stage
from openenv_gym.servers.targets import resolve

from .fakes import desk
from .lanescene import hello


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"capabilities": []}, Lane),
        ({"capabilities": ["timing"]}, TimedLane),
        ({"capabilities": ["lanes"]}, Group),
        ({"capabilities": [], "autoreset": "next_step"}, Group),
        ({"capabilities": [], "lanes": 2}, Group),
        ({"capabilities": [], "lanes": 2, "native": True, "autoreset": "any"}, Native),
    ],
)
def test_a_greeting_gets_the_stage_that_it_asks_for(fields: dict[str, Any], kind: type) -> None:
    stage: Stage
    stage, facts = plan_of(ServerSettings(), resolve("CartPole-v1")).build(hello(**fields), desk(slow=False))
    assert type(stage) is kind
    assert isinstance(stage, Access) == (kind is not Group)
    assert (facts["target"], facts["action_space"]) == ("CartPole-v1", {"type": "discrete", "n": 2})
    stage.close()
