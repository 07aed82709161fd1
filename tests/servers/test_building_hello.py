"""What ``hello`` may ask for."""

from __future__ import annotations

import math
from typing import Any

import pytest

from openenv_gym.errors import (
    CapacityError,
    EnvironmentMismatchError,
    OpenEnvError,
    RemoteProtocolError,
    VersionMismatchError,
)
from openenv_gym.protocol.messages import Hello, Limits
from openenv_gym.servers.building import check_hello
from openenv_gym.servers.targets import resolve

TARGET = resolve("CartPole-v1")
GOOD: dict[str, Any] = {"session": "0123456789abcdef" * 2, "token": bytes(16)}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"token": bytes(64)},
        {"lanes": 4, "autoreset": "same_step", "limits": Limits(episode=1, threads=9)},
        {"native": True, "autoreset": "any"},
        {"expect": "CartPole-v1", "slot_timeout": math.inf, "limits": Limits(step=0.5, message=4096)},
    ],
    ids=str,
)
def test_what_can_be_asked_for(fields: dict[str, Any]) -> None:
    assert check_hello(Hello(**{**GOOD, **fields}), TARGET, 4) is None


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"version": 2, "session": "new form"}, VersionMismatchError, "version 2"),
        ({"expect": "Acrobot-v1"}, EnvironmentMismatchError, "Acrobot-v1"),
        ({"lanes": 5}, CapacityError, "4 lanes here and 5"),
        ({"lanes": 0}, RemoteProtocolError, "0 lanes"),
        ({"autoreset": "same"}, RemoteProtocolError, "autoreset 'same'"),
        ({"limits": Limits(episode=-1)}, RemoteProtocolError, "limits.episode = -1"),
        ({"limits": Limits(threads=-1)}, RemoteProtocolError, "limits.threads = -1"),
        ({"session": "0123456789ABCDEF" * 2}, RemoteProtocolError, "32 lower-case"),
        ({"session": "0" * 32 + "\n"}, RemoteProtocolError, "32 lower-case"),
        ({"session": ""}, RemoteProtocolError, "32 lower-case"),
        ({"token": bytes(15)}, RemoteProtocolError, "16 to 64 bytes"),
        ({"token": bytes(65)}, RemoteProtocolError, "16 to 64 bytes"),
        ({"slot_timeout": math.nan}, RemoteProtocolError, "slot_timeout = nan"),
        ({"slot_timeout": -1.0}, RemoteProtocolError, "slot_timeout = -1.0"),
        ({"limits": Limits(message=-1)}, RemoteProtocolError, "limits.message = -1"),
        ({"limits": Limits(step=math.nan)}, RemoteProtocolError, "limits.step = nan"),
        ({"limits": Limits(reset=-0.5)}, RemoteProtocolError, "limits.reset = -0.5"),
        ({"limits": Limits(construction=-math.inf)}, RemoteProtocolError, "limits.construction = -inf"),
    ],
    ids=str,
)
def test_what_cannot_is_refused(fields: dict[str, Any], error: type[OpenEnvError], says: str) -> None:
    with pytest.raises(error, match=says):
        check_hello(Hello(**{**GOOD, **fields}), TARGET, 4)
