"""Actions and observations of Echo as maps of fields."""

from __future__ import annotations

import pytest

from openenv_gym.envs.echo_env.models import EchoAction, EchoObservation, PlainEchoObservation
from openenv_gym.errors import ValidationError
from openenv_gym.structs import from_map, schema_of, to_map


def test_an_action_has_a_message() -> None:
    assert from_map(EchoAction, {"message": "hi"}) == EchoAction("hi")
    assert schema_of(EchoAction)["required"] == ["message"]
    with pytest.raises(ValidationError) as info:
        from_map(EchoAction, {"message": 7})
    assert info.value.details["path"] == "$.message"


def test_what_is_sent_without_a_tool_is_an_observation_of_no_tool() -> None:
    sent = to_map(PlainEchoObservation("hi", 2, reward=0.2))
    assert sent == {"echoed_message": "hi", "message_length": 2}
    got = from_map(EchoObservation, sent)
    assert (got.echoed_message, got.message_length) == ("hi", 2)
    assert (got.tool_name, got.result, got.error) == ("", None, None)
