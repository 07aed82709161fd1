"""An env on a scripted server, whose observations count the steps."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from openenv_gym.env import RemoteEnv
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.columns import column_codec
from openenv_gym.protocol.specs import to_spec
from tests.client.scripted import Life, ScriptedServer, count_steps

WELCOME = {
    "target": "Count-v0",
    "observation_space": to_spec(spaces.Discrete(1000), "observation_space"),
    "action_space": to_spec(spaces.Discrete(2), "action_space"),
}
OBSERVE = column_codec(spaces.Discrete(1000)).encode_one


def count(request: Any, life: Life) -> Any:
    """Answer with the number of steps so far as the observation."""
    reply = count_steps(request, life)
    if isinstance(reply, m.Observation | m.Transition):
        reply.observations = OBSERVE(np.int64(life.steps))
    if isinstance(reply, m.Transition):
        reply.rewards = struct.pack("<d", 1.0)
    return reply


@contextlib.contextmanager
def scripted(answer: Any = count, welcome: dict[str, Any] | None = None) -> Iterator[ScriptedServer]:
    """Run a server."""
    with ScriptedServer(answer=answer, welcome=welcome or WELCOME) as server:
        yield server


def counting(server: ScriptedServer, **kwargs: Any) -> RemoteEnv:
    """Return an env on it."""
    return RemoteEnv(base_url=server.base_url, connect_timeout=5, **kwargs)
