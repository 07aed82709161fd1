"""Typed environments and clients."""

from __future__ import annotations

import numpy as np
import pytest

from openenv_gym import GenericEnvClient
from openenv_gym.errors import ValueNotCarriedError


def test_f038_what_an_observation_holds_arrives_or_is_named() -> None:
    client = GenericEnvClient(provider="inprocess", target="tests.support.typedenvs:Gallery").sync()
    with client:
        client.reset()
        thing = client.step({"what": "picture"}).observation["thing"]
        assert thing["title"] == "two"
        assert thing["pixels"].tobytes() == np.array([[np.nan, -0.0]], np.float32).tobytes()
        with pytest.raises(ValueNotCarriedError, match="thing") as caught:
            client.step({"what": "handle"})
        assert "deep" in caught.value.details["path"]
        assert client.step({"what": "picture"}).observation["thing"]["title"] == "two"
