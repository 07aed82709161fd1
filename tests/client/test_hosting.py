"""Servers that a provider object runs for one client."""

from __future__ import annotations

from typing import Any

import pytest

from openenv_gym.client import hosting
from openenv_gym.client.hosting import Host, host_of_image, host_of_space
from openenv_gym.errors import ConfigError
from openenv_gym.providers.base import Provider


class Container:
    """A provider in the form of OpenEnv's for containers."""

    def __init__(self, *, ready: bool = True) -> None:
        self.log: list[Any] = []
        self.ready = ready

    def start_container(self, image: str = "default", **options: Any) -> str:
        self.log.append(("start", image, options))
        return "http://127.0.0.1:1"

    def wait_for_ready(self, base_url: str) -> None:
        self.log.append(("wait", base_url))
        if not self.ready:
            raise TimeoutError("not ready")

    def stop_container(self) -> None:
        self.log.append("stop")


class Runtime:
    """A provider in the form of OpenEnv's for processes."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def start(self, **options: Any) -> str:
        self.log.append(("start", options))
        return "http://127.0.0.1:2"

    def wait_for_ready(self) -> None:
        self.log.append("wait")

    def stop(self) -> None:
        self.log.append("stop")


class Picky:
    """Wants an image."""

    def start_container(self, image: str) -> str:
        raise AssertionError(image)


class Own(Provider):
    """One of ours."""

    def start(self) -> str:
        self.token = "secret"
        return "ws://127.0.0.1:3"

    def wait_ready(self, timeout: float | None) -> None:
        assert timeout is not None and timeout <= 5.0

    def alive(self) -> bool:
        return True

    def stop(self) -> None:
        self.target = "stopped"


def test_a_container_is_started_waited_for_and_stopped_once() -> None:
    provider = Container()
    host = Host(provider)
    assert (host.starts, host.token) == (True, None)
    host.stop()
    assert host.start(5.0) == "http://127.0.0.1:1"
    host.stop()
    host.stop()
    assert provider.log == [("start", "default", {}), ("wait", "http://127.0.0.1:1"), "stop"]


def test_a_process_is_too() -> None:
    provider = Runtime()
    host = Host(provider)
    assert host.start(None) == "http://127.0.0.1:2"
    host.stop()
    assert provider.log == [("start", {}), "wait", "stop"]


def test_a_provider_of_ours_is_started_and_stopped_its_own_way() -> None:
    provider = Own("x:Y")
    host = Host(provider)
    assert host.start(5.0) == "ws://127.0.0.1:3"
    assert host.token == "secret"
    host.stop()
    assert provider.target == "stopped"


def test_what_does_not_become_ready_is_stopped() -> None:
    provider = Container(ready=False)
    with pytest.raises(TimeoutError, match="not ready"):
        Host(provider).start(5.0)
    assert provider.log[-1] == "stop"


def test_a_server_that_runs_already_is_stopped_and_never_started() -> None:
    provider = Container()
    host = Host(provider)
    host.adopt()
    assert not host.starts
    host.stop()
    assert provider.log == ["stop"]


def test_arguments_that_nobody_gave_are_named() -> None:
    with pytest.raises(ConfigError, match=r"Picky wants image to start.*from_docker_image"):
        Host(Picky()).start(None)


@pytest.mark.parametrize("provider", [object(), 3])
def test_other_objects_are_no_providers(provider: Any) -> None:
    with pytest.raises(ConfigError, match=r"neither start_container.. nor start"):
        Host(provider)


def test_an_image_is_started_with_its_options() -> None:
    provider = Container()
    host_of_image("echo:1", provider, {"port": 9}).start(None)
    assert provider.log[0] == ("start", "echo:1", {"port": 9})


def test_a_space_is_its_image_or_its_source() -> None:
    provider = Container()
    host_of_space("Open.Env/echo_env", provider, {"tag": "v2", "port": 1}, docker=True).start(None)
    assert provider.log[0] == ("start", "registry.hf.space/open-env-echo-env:v2", {"port": 1})
    runtime = Runtime()
    host_of_space("a/b", runtime, {"workers": 2}, docker=False).start(None)
    assert runtime.log[0] == ("start", {"workers": 2})
    with pytest.raises(ConfigError, match="'project_path'.*give them to yours"):
        host_of_space("a/b", runtime, {"project_path": "."}, docker=False)


def test_without_a_provider_ours_of_that_name_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def provider_class(name: str) -> type[Provider]:
        asked.append(name)
        if len(asked) > 2:
            raise ConfigError("there is no such provider")
        return Own

    monkeypatch.setattr(hosting, "provider_class", provider_class)
    assert host_of_image("echo:1", None, {"a": 1}).provider.options == {"a": 1}
    assert host_of_space("a/b", None, {"workers": 2}, docker=False).provider.target.endswith("spaces/a/b")
    assert asked == ["docker", "uv"]
    with pytest.raises(ConfigError, match="no such provider; or pass provider=, an object"):
        host_of_image("echo:1", None, {})


@pytest.mark.parametrize("name", [5, None, ""])
def test_what_is_started_has_a_name(name: Any) -> None:
    with pytest.raises(ConfigError, match="image is .*; write its name"):
        host_of_image(name, None, {})
    with pytest.raises(ConfigError, match="repo_id is .*; write its name"):
        host_of_space(name, None, {}, docker=True)
