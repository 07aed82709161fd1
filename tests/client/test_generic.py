"""A client without types."""

from __future__ import annotations

from openenv_gym.client import GenericAction, GenericEnvClient
from openenv_gym.models import CallToolAction
from tests.client.sleeper import Nap


def test_everything_is_a_dict(sleeper_url: str) -> None:
    with GenericEnvClient(sleeper_url) as client:
        assert client.reset().observation == {"said": "hello", "steps": 0}
        assert client.step(GenericAction(say="hi")).observation == {"said": "hi", "steps": 1}
        assert client.step({"say": "dict"}).observation["said"] == "dict"
        assert client.step(Nap(say="struct")).observation["said"] == "struct"
        called = client.step(CallToolAction(tool_name="add", arguments={"a": 1})).observation
        assert (called["tool_name"], called["result"], called["error"]) == ("add", 3, None)
        assert client.state()["step_count"] == 4


def test_an_action_is_a_dict_that_shows_its_fields() -> None:
    action = GenericAction(code="1 + 1", timeout=3)
    assert action == {"code": "1 + 1", "timeout": 3}
    assert repr(action) == "GenericAction(code='1 + 1', timeout=3)"
