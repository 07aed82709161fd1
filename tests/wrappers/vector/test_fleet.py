from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from gymnasium import spaces

from openenv_gym.client import flows
from openenv_gym.client.endpoint import Endpoint
from openenv_gym.client.settings import ClientSettings
from openenv_gym.client.split import SplitConnection
from openenv_gym.errors import (
    CapacityError,
    EnvironmentMismatchError,
    OpenEnvError,
    ServerConnectionError,
    SessionLostError,
    StartupError,
)
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.specs import to_spec
from openenv_gym.wrappers.vector import fleet as module
from openenv_gym.wrappers.vector.arguments import Arguments, take_arguments
from openenv_gym.wrappers.vector.fleet import Fleet, Part, openers_of
from tests.client.scripted import ScriptedServer


def spaces_of(n: int) -> dict[str, Any]:
    spec = to_spec(spaces.Discrete(n), "space")
    return {"observation_space": spec, "action_space": spec}


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def arguments(*urls: str, num_envs: int = 4, **kwargs: Any) -> Arguments:
    own = {
        "servers": None,
        "lanes": None,
        "lanes_per_worker": None,
        "lane_threads": None,
        "autoreset_mode": None,
        "max_episode_steps": None,
        "max_restarts": 10,
    }
    own |= {name: kwargs.pop(name) for name in list(kwargs) if name in own}
    return take_arguments({"base_url": list(urls), **kwargs}, num_envs=num_envs, **own)


def offer(workers: int, free: int, maximum: int) -> dict[str, str]:
    return {
        "OpenEnv-Workers": str(workers),
        "OpenEnv-Slots-Free": str(free),
        "OpenEnv-Slots-Max": str(maximum),
    }


def fleet_of(told: Arguments) -> Fleet:
    return Fleet(openers_of(told, None, False, "ansi"), told)


def hellos(server: ScriptedServer) -> list[m.Hello]:
    return [life.hello for life in server.sessions.values()]


def test_lanes_are_spread_over_servers(opened: ExitStack) -> None:
    servers = [opened.enter_context(ScriptedServer()) for _ in range(3)]
    fleet = fleet_of(arguments(*(server.base_url for server in servers), num_envs=7))
    opened.callback(fleet.close)
    assert [(part.first, part.count) for part in fleet.parts] == [(0, 3), (3, 2), (5, 2)]
    assert [list(part.lanes) for part in fleet.parts][1] == [3, 4]
    assert [part.server for part in fleet.parts] == [server.base_url for server in servers]
    assert [hello.lanes for server in servers for hello in hellos(server)] == [3, 2, 2]


def test_a_session_says_what_its_lanes_are_to_be(opened: ExitStack) -> None:
    server = opened.enter_context(ScriptedServer(greeting=offer(1, 9, 9)))
    told = arguments(
        server.base_url,
        num_envs=2,
        autoreset_mode="SAME_STEP",
        max_episode_steps=9,
        lane_threads=5,
        env_kwargs=[{"a": 1}, {"a": (2, None)}],
        step_timeout=3,
    )
    opened.callback(fleet_of(told).close)
    (hello,) = hellos(server)
    assert (hello.lanes, hello.autoreset, hello.native, hello.capabilities) == (
        2,
        "same_step",
        False,
        ["lanes"],
    )
    assert (hello.limits.episode, hello.limits.threads, hello.limits.step) == (9, 2, 3.0)
    assert hello.env_kwargs == [{"a": 1}, {"a": (2, None)}]
    assert (hello.render_mode, hello.time_limit) == ("ansi", False)
    assert len(server.paths) == 1


def test_a_native_session_takes_the_mode_of_the_class(opened: ExitStack) -> None:
    server = opened.enter_context(ScriptedServer(greeting=offer(4, 9, 9)))
    opened.callback(fleet_of(arguments(server.base_url, lanes="native")).close)
    (hello,) = hellos(server)
    assert (hello.native, hello.autoreset, hello.lanes) == (True, "any", 4)


class Parallel(ScriptedServer):
    """Serves several connections at once, as far as opening and closing goes."""

    def _serve(self) -> None:
        import threading

        threads = []
        while not self._stopping:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                break
            thread = threading.Thread(target=self._alone, args=(sock,), daemon=True)
            thread.start()
            threads.append(thread)
        for thread in threads:
            thread.join(10)

    def _alone(self, sock: Any) -> None:
        with sock:
            self._connection(sock)


@pytest.mark.parametrize(
    ("workers", "lanes_per_worker", "due"),
    [(3, None, [2, 1, 1]), (1, None, [4]), (9, None, [1, 1, 1, 1]), (1, 1, [1, 1, 1, 1]), (3, 3, [2, 2])],
)
def test_each_worker_has_a_session(
    opened: ExitStack, workers: int, lanes_per_worker: int | None, due: list[int]
) -> None:
    server = opened.enter_context(Parallel(greeting=offer(workers, 4, 4)))
    fleet = fleet_of(arguments(server.base_url, lanes_per_worker=lanes_per_worker))
    assert [part.count for part in fleet.parts] == due
    fleet.close()
    assert sorted(hello.lanes for hello in hellos(server)) == sorted(due)
    assert server.seen.count("close") == len(due)


def test_too_few_slots_are_refused_before_anything_is_built(opened: ExitStack) -> None:
    rich = opened.enter_context(ScriptedServer(greeting=offer(1, 99, 99)))
    poor = opened.enter_context(ScriptedServer(greeting=offer(1, 1, 8)))
    with pytest.raises(
        CapacityError, match=r"room for 1 more lanes \(of 8\), and 2 were asked for"
    ) as caught:
        fleet_of(arguments(rich.base_url, poor.base_url))
    assert caught.value.server == poor.base_url
    assert (caught.value.details["wanted"], caught.value.details["max"]) == (2, 8)
    assert rich.seen == poor.seen == []


def test_who_waits_for_slots_is_refused_only_what_will_never_be_free(opened: ExitStack) -> None:
    server = opened.enter_context(ScriptedServer(greeting=offer(1, 0, 4)))
    fleet_of(arguments(server.base_url, slot_timeout=5)).close()
    with pytest.raises(CapacityError, match="room for 4 more .* there, or name more servers$"):
        fleet_of(arguments(server.base_url, num_envs=5, slot_timeout=5))
    with pytest.raises(CapacityError, match="room for 0 more .* or wait by slot_timeout$"):
        fleet_of(arguments(server.base_url))


def test_other_spaces_than_those_of_the_first_session_are_refused(opened: ExitStack) -> None:
    first = opened.enter_context(ScriptedServer(welcome=spaces_of(2)))
    other = opened.enter_context(ScriptedServer(welcome=spaces_of(3)))
    with pytest.raises(EnvironmentMismatchError, match="other spaces than the first session has"):
        fleet_of(arguments(first.base_url, other.base_url))
    assert first.seen[-1] == other.seen[-1] == "close"


def test_a_server_that_is_not_there_leaves_nothing_open(opened: ExitStack) -> None:
    server = opened.enter_context(ScriptedServer())
    with pytest.raises(ServerConnectionError):
        fleet_of(arguments(server.base_url, "ws://127.0.0.1:1", connect_timeout=0.2))
    assert server.seen == []


def test_a_lost_part_is_opened_again(opened: ExitStack) -> None:
    server = opened.enter_context(ScriptedServer())
    fleet = fleet_of(arguments(server.base_url))
    opened.callback(fleet.close)
    (part,) = fleet.parts
    server.script.extend(["request", "kill"])
    part.post(m.Step, None)
    with pytest.raises(SessionLostError, match="does not know this session"):
        part.collect()
    assert (part.connection, part.losses) == (None, 1)
    with pytest.raises(SessionLostError, match="reset its lanes"):
        part.post(m.Step, None)
    assert fleet.begin([part]) == {}
    assert fleet.complete([part]) == {}
    part.post(m.Step, None)
    assert isinstance(part.collect(), m.Transition)


@pytest.mark.parametrize(("cores", "crowded"), [(1, True), (2, True), (3, False)])
def test_who_waits_for_as_many_sessions_as_there_are_cores_leaves_them_its_own(
    opened: ExitStack, monkeypatch: pytest.MonkeyPatch, cores: int, crowded: bool
) -> None:
    monkeypatch.setattr(module, "cores", lambda: cores)
    servers = [opened.enter_context(ScriptedServer()) for _ in range(2)]
    found = fleet_of(arguments(*(server.base_url for server in servers)))
    opened.callback(found.close)
    assert found.crowded is crowded
    assert [part.connection is not None and part.connection.crowded for part in found.parts] == [crowded] * 2
    first = found.parts[0]
    first.lose(ServerConnectionError("lost"))
    assert (found.begin([first]), found.complete([first])) == ({}, {})
    assert first.connection is not None
    assert first.connection.crowded is crowded


def test_sessions_elsewhere_need_no_core_here(opened: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cores", lambda: 1)
    monkeypatch.setattr(Endpoint, "local", False)
    server = opened.enter_context(ScriptedServer())
    found = fleet_of(arguments(server.base_url))
    opened.callback(found.close)
    assert not found.crowded


def test_the_cores_of_this_process_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert module.cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert module.cores() == 1


def test_a_part_that_cannot_be_opened_again_is_told(opened: ExitStack) -> None:
    server = opened.enter_context(ScriptedServer())
    fleet = fleet_of(arguments(server.base_url, connect_timeout=4.0))
    (part,) = fleet.parts
    part.lose(SessionLostError("gone"))
    server.__exit__()
    failures = fleet.begin([part])
    assert isinstance(failures[0], ServerConnectionError)
    assert part.losses == 2


def test_sessions_can_be_given_up_without_a_wait(opened: ExitStack) -> None:
    server = opened.enter_context(ScriptedServer())
    fleet = fleet_of(arguments(server.base_url))
    assert fleet.discard()
    assert not fleet.discard()


def test_settings_of_the_client_reach_every_opener() -> None:
    told = arguments("ws://a:1", "ws://b:2", token="t")
    assert [opener.endpoint.url for opener in openers_of(told, None, True, None) if opener.endpoint] == [
        "ws://a:1",
        "ws://b:2",
    ]
    assert isinstance(told.servers[0], ClientSettings)


def test_a_server_that_is_gone_is_not_asked_for_every_session(
    opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = opened.enter_context(Parallel(greeting=offer(1, 9, 9)))
    fleet = fleet_of(arguments(server.base_url, lanes_per_worker=1))
    for part in fleet.parts:
        assert part.connection is not None and part.connection._channel is not None
        part.connection._channel.abort()
    attempts = []
    monkeypatch.setattr(flows.Conversation, "recover", lambda self, *_: attempts.append(self) or lost(self))
    fleet.close()
    assert len(attempts) == 1


@pytest.mark.parametrize(
    ("error", "asked"), [(ServerConnectionError, 2), (StartupError, 2), (CapacityError, 5)]
)
def test_a_server_that_is_not_there_is_not_asked_for_every_new_session(
    opened: ExitStack, monkeypatch: pytest.MonkeyPatch, error: type[OpenEnvError], asked: int
) -> None:
    first = opened.enter_context(Parallel(greeting=offer(1, 9, 9)))
    other = opened.enter_context(Parallel(greeting=offer(1, 9, 9)))
    fleet = fleet_of(arguments(first.base_url, other.base_url, num_envs=5, lanes_per_worker=1))
    for part in fleet.parts:
        part.lose(SessionLostError("gone"))
    attempts = []

    def fail(self: Any, part: Part, *, patient: bool) -> Any:
        attempts.append((part.server, patient))
        raise error("nobody is there", server=part.server)

    monkeypatch.setattr(Fleet, "_begin", fail)
    failures = fleet.begin(fleet.parts)
    assert [failures[lane].server for lane in range(5)] == [first.base_url] * 3 + [other.base_url] * 2
    assert {type(failure) for failure in failures.values()} == {error}
    assert len(attempts) == asked
    assert [part.losses for part in fleet.parts] == [2] * 5


def lost(talk: Any) -> Iterator[Any]:
    raise ServerConnectionError("nobody is there", server=talk.server)
    yield


def test_an_interrupt_while_sessions_open_waits_for_nothing(
    opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = opened.enter_context(Parallel(greeting=offer(2, 9, 9)))

    def interrupt(self: Any, part: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Fleet, "_complete", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fleet_of(arguments(server.base_url))
    assert "close" not in server.seen


def test_an_interrupt_while_sessions_close_leaves_no_connection(
    opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = opened.enter_context(Parallel(greeting=offer(2, 9, 9)))
    fleet = fleet_of(arguments(server.base_url))
    connections = [part.connection for part in fleet.parts]

    def interrupt(self: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SplitConnection, "close", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fleet.close()
    assert [connection is not None and connection.over for connection in connections] == [True] * 2


def test_an_interrupted_opening_is_let_go_and_an_interrupted_request_is_not(opened: ExitStack) -> None:
    server = opened.enter_context(Parallel(greeting=offer(2, 9, 9)))
    fleet = fleet_of(arguments(server.base_url, lanes_per_worker=2))
    part, other = fleet.parts[:2]
    part.post(m.Reset, None, None, None)
    part.give_up()
    assert part.connection is not None and not part.connection.outstanding
    other.lose(SessionLostError("it was killed"))
    assert fleet.begin([other]) == {}
    other.give_up()
    assert other.connection is None
    other.give_up()
    fleet.close()
