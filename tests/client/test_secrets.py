from __future__ import annotations

import pytest

from openenv_gym.client.secrets import redact, restore
from openenv_gym.errors import ConfigError


def restored(kwargs: dict[str, object]) -> dict[str, object]:
    return {name: restore(name, value) for name, value in kwargs.items()}


def test_secrets_leave_the_arguments_and_come_back() -> None:
    kwargs = {
        "target": "echo",
        "token": "s3cret",
        "headers": {"X-Key": "k3y", "X-Other": "k3y"},
        "base_url": "ws://me:pw@host:1/prefix?code=7",
    }
    before = repr(kwargs)
    shown = redact(kwargs)
    for secret in ("s3cret", "k3y", "pw", "code"):
        assert secret not in repr(shown)
    assert "host:1/prefix" in repr(shown)
    assert "X-Key" in repr(shown)
    assert restored(shown) == kwargs
    assert repr(kwargs) == before


def test_redacting_twice_changes_nothing_more() -> None:
    kwargs = {"token": "s3cret", "headers": {"X": "k3y"}, "base_url": "ws://me:pw@host"}
    assert redact(redact(kwargs)) == redact(kwargs)
    assert redact(kwargs) == redact(kwargs)


@pytest.mark.parametrize(
    "kwargs",
    [
        {"token": "env:NAME"},
        {"token": None, "headers": None, "base_url": None},
        {"base_url": "ws://host:1/prefix"},
        {"base_url": "unix:/a@b?c"},
        {"base_url": "ws://[::1"},
        {"base_url": 7, "headers": 7, "token": 7},
        {"is_slippery": False},
    ],
)
def test_what_holds_no_secret_stays(kwargs: dict[str, object]) -> None:
    assert redact(kwargs) == kwargs
    assert restored(kwargs) == kwargs


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("token", "redacted:0123456789abcdef", "pass token= again"),
        ("headers", {"X": "redacted:0123456789abcdef"}, "pass headers= again"),
        ("base_url", "ws://redacted-0123456789abcdef@host", "pass base_url= again"),
    ],
)
def test_a_reference_of_another_process_says_what_to_do(name: str, value: object, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        restore(name, value)


def test_a_list_of_addresses_loses_its_secrets_too() -> None:
    urls = ["ws://plain:1", "ws://user:word@host:2"]
    shown = redact({"base_url": urls})["base_url"]
    assert shown[0] == urls[0]
    assert "word" not in shown[1]
    assert [restore("base_url", url) for url in shown] == urls
