"""Typed clients, against a server of this package and one that speaks OpenEnv's JSON."""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import pickle
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.sync.server import ServerConnection

from openenv_gym import errors
from openenv_gym.client import EnvClient, GenericEnvClient, attending
from openenv_gym.models import CallToolAction, CallToolObservation, ListToolsObservation, StepResult
from tests.client.jsonserver import JsonServer, observation, serving_json
from tests.client.sleeper import Gate, Nap, SleeperClient, Sleeps, Slept
from tests.support.proxy import Proxy
from tests.support.serverproc import ServerProcess, eventually


@pytest.fixture
def client(sleeper_url: str) -> Iterator[SleeperClient]:
    client = SleeperClient(sleeper_url)
    yield client
    client.close()


def echo(message: dict[str, Any], connection: int) -> Any:
    """Answer as an environment of OpenEnv that echoes and counts its connections."""
    if message["type"] == "state":
        return {"type": "state", "data": {"episode_id": "e", "step_count": connection}}
    said = message.get("data", {})
    return observation(
        {"said": said.get("say", ""), "steps": connection}, reward=0.5, done=said.get("end", False)
    )


@contextmanager
def waiting_echo() -> Iterator[JsonServer]:
    """Run a server that answers as :func:`echo` does, but to what says ``wait`` in the end only."""
    release = threading.Event()

    def answer(message: dict[str, Any], connection: int) -> Any:
        if message.get("data", {}).get("wait"):
            release.wait(60)
        return echo(message, connection)

    with serving_json(answer) as server:
        try:
            yield server
        finally:
            release.set()


# -- with and without a loop


def test_without_a_loop_calls_block_and_return_results(client: SleeperClient) -> None:
    result = client.reset(seed=3, colour="red")
    assert result == StepResult(
        Slept(said="hello", metadata={"seed": 3, "colour": "red"}), metadata={"seed": 3, "colour": "red"}
    )
    result = client.step(Nap(say="hi"))
    assert (result.observation.said, result.observation.steps, result.reward) == ("hi", 1, 0.5)
    assert client.step({"say": "dict"}).observation.said == "dict"
    state = client.state()
    assert isinstance(state, Sleeps) and state.step_count == 2
    assert client.connect() is client


def test_on_a_loop_calls_are_awaited(sleeper_url: str) -> None:
    async def main() -> None:
        async with SleeperClient(sleeper_url) as client:
            assert (await client.reset(seed=1)).observation.said == "hello"
            assert (await client.step(Nap(say="hi"))).observation.said == "hi"
            assert (await client.state()).step_count == 1
            assert (await client.connect()) is client
        with pytest.raises(errors.EnvClosedError, match=r"connect.. opens it again"):
            await client.step(Nap())
        await client.connect()
        assert (await client.reset()).observation.said == "hello"
        await client.close()

    asyncio.run(main())


def test_on_a_loop_results_may_be_used_without_await(client: SleeperClient) -> None:
    async def main() -> None:
        assert client.reset().observation.said == "hello"
        result = client.step(Nap(say="hi"))
        assert (result.reward, result.done, result.observation.said) == (0.5, False, "hi")
        assert (await result).observation.steps == 1

    asyncio.run(main())


def test_the_loop_goes_on_while_a_step_takes_long(client: SleeperClient, gate: Gate) -> None:
    async def main() -> None:
        await client.reset()
        task = asyncio.ensure_future(client.step(Nap(say=gate.say)))
        for _ in range(6):
            await asyncio.sleep(0.005)
            assert not task.done()
        gate.open()
        await task

    asyncio.run(main())


def test_many_sessions_on_one_loop_are_under_way_at_once(sleeper_url: str) -> None:
    async def main() -> float:
        clients = [SleeperClient(sleeper_url) for _ in range(20)]
        await asyncio.gather(*(client.reset() for client in clients))
        begun = time.monotonic()
        results = await asyncio.gather(
            *(client.step(Nap(seconds=0.2, say=str(n))) for n, client in enumerate(clients))
        )
        took = time.monotonic() - begun
        assert [result.observation.said for result in results] == [str(n) for n in range(20)]
        await asyncio.gather(*(client.close() for client in clients))
        return took

    assert asyncio.run(main()) < 20 * 0.2


def test_f028_a_thousand_blocking_steps_then_eight_threads(client: SleeperClient) -> None:
    sync = client.sync()
    sync.reset()
    for number in range(1000):
        assert sync.step(Nap()).observation.steps == number + 1
    with ThreadPoolExecutor(8) as pool:
        steps = list(pool.map(lambda _: client.step(Nap()).observation.steps, range(80)))
    assert sorted(steps) == list(range(1001, 1081))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("language", ["binary", "json"])
def test_f028_a_forked_child_is_told_and_its_parent_goes_on(sleeper_url: str, language: str) -> None:
    with serving_json(echo) as server:
        client = GenericEnvClient(sleeper_url if language == "binary" else server.url)
        client.reset()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            said = b"nothing"
            try:
                client.step({"say": "child"})
            except errors.SessionLostError as exc:
                said = str(exc).encode()
            os.write(writing, said)
            os._exit(0)
        os.waitpid(child, 0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            assert "the process that this one was forked from" in pipe.read()
        assert client.step({"say": "parent"}).observation["said"] == "parent"
        client.close()


@pytest.mark.parametrize("language", ["binary", "json"])
def test_f029_a_client_belongs_to_no_loop(sleeper_url: str, language: str) -> None:
    async def make(url: str) -> Any:
        client = GenericEnvClient(url)
        await client.connect()
        await client.reset()
        return client

    async def step(client: Any) -> int:
        steps: int = (await client.step({"say": "x"})).observation["steps"]
        return steps

    with serving_json(echo) as server:
        client = asyncio.run(make(sleeper_url if language == "binary" else server.url))
        steps = [asyncio.run(step(client)), asyncio.run(step(client))]
        steps.append(client.sync().step({"say": "y"}).observation["steps"])
        assert steps == ([1, 2, 3] if language == "binary" else [1, 1, 1])
        assert client.sync().reset().observation["said"] == ("hello" if language == "binary" else "")
        client.close()


def test_f030_nothing_is_ever_never_awaited(sleeper_url: str) -> None:
    async def connect() -> Any:
        client = SleeperClient(sleeper_url)
        await client.connect()
        return client

    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        client = asyncio.run(connect())
        assert isinstance(client.reset(), StepResult)
        assert isinstance(client.step(Nap()), StepResult)
        client.close()
        del client
        gc.collect()


def test_f031_the_address_is_public_and_no_loop_is_needed(sleeper_url: str) -> None:
    client = SleeperClient(f"{sleeper_url}/")
    assert isinstance(client.base_url, str) and client.base_url.rstrip("/") == sleeper_url
    assert SleeperClient("ws://me:secret@127.0.0.1:1?key=x").base_url == "ws://127.0.0.1:1"
    assert repr(client) == f"<SleeperClient {client.base_url}>"


# -- timeouts and cancellation


def test_f009_a_cancelled_step_never_answers_the_next_one(client: SleeperClient, gate: Gate) -> None:
    async def main() -> None:
        await client.reset()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(client.step(Nap(say=gate.say)), 0.05)
        gate.open()
        result = await client.step(Nap(say="next"))
        assert (result.observation.said, result.observation.steps) == ("next", 2)
        gate.shut()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(client.step(Nap(say=gate.say)), 0.02)
        gate.open()
        assert (await client.reset()).observation.said == "hello"

    asyncio.run(main())


def test_f009_with_json_the_connection_is_dropped() -> None:
    async def main(client: Any) -> None:
        await client.reset()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(client.step({"wait": True, "say": "late"}), 0.02)
        with pytest.raises(errors.SessionLostError, match="was given up"):
            await client.step({"say": "next"})
        assert (await client.reset()).observation == {"said": "", "steps": 2}
        assert (await client.step({"say": "next"})).observation["said"] == "next"
        await client.close()

    with waiting_echo() as server:
        asyncio.run(main(GenericEnvClient(server.url)))


@pytest.mark.parametrize("language", ["binary", "json"])
def test_what_takes_too_long_is_a_timeout_and_ends_the_session(
    sleeper_url: str, language: str, gate: Gate
) -> None:
    with waiting_echo() as server:
        client = GenericEnvClient(sleeper_url if language == "binary" else server.url, message_timeout_s=2.5)
        client.reset()
        with pytest.raises(TimeoutError) as caught:
            client.step({"say": gate.say} if language == "binary" else {"wait": True})
        assert isinstance(caught.value, errors.DeadlineExceededError)
        with pytest.raises(errors.SessionLostError, match=r"call reset.. to start a new session"):
            client.step({"say": "x"})
        assert client.reset().done is False
        client.close()


def test_several_threads_and_a_loop_use_one_client(client: SleeperClient) -> None:
    client.reset()
    seen: list[int] = []

    def body() -> None:
        seen.extend(client.step(Nap()).observation.steps for _ in range(20))

    async def main() -> None:
        for _ in range(20):
            seen.append((await client.step(Nap())).observation.steps)

    threads = [threading.Thread(target=body) for _ in range(3)]
    for thread in threads:
        thread.start()
    asyncio.run(main())
    for thread in threads:
        thread.join(20)
    assert sorted(seen) == list(range(1, 81))


# -- what gets lost


def test_a_lost_connection_is_resumed_and_nothing_is_executed_twice(sleeper_url: str) -> None:
    with Proxy(sleeper_url) as proxy:
        client = SleeperClient(proxy.url)
        client.reset()
        assert client.step(Nap()).observation.steps == 1
        proxy.drop()
        assert client.step(Nap()).observation.steps == 2

        async def main() -> None:
            proxy.drop()
            assert (await client.step(Nap())).observation.steps == 3

        asyncio.run(main())
        client.close()


def test_f010_a_server_that_restarts_is_reached_again_by_reset() -> None:
    server = ServerProcess("tests.client.sleeper:Sleeper")
    server.start()
    client = SleeperClient(server.url)
    try:
        client.reset()
        server.kill()
        assert eventually(lambda: not server.family())  # the session goes with its worker, not before
        server.start()
        with pytest.raises(errors.SessionLostError):
            client.step(Nap())
        with pytest.raises(errors.SessionLostError):
            client.step(Nap())
        assert client.reset().observation.said == "hello"
        assert client.step(Nap()).observation.steps == 1
    finally:
        client.close()
        server.stop()


def test_with_json_a_lost_connection_is_a_lost_session_until_reset() -> None:
    def cutting(message: dict[str, Any], connection: int) -> Any:
        if message.get("data", {}).get("say") == "cut":
            raise ConnectionAbortedError
        return echo(message, connection)

    with serving_json(cutting) as server:
        client = GenericEnvClient(server.url)
        client.reset()
        with pytest.raises(errors.SessionLostError):
            client.step({"say": "cut"})
        with pytest.raises(errors.SessionLostError, match=r"call reset"):
            client.step({"say": "x"})
        assert client.reset().observation["steps"] == 2
        client.close()


def test_nobody_there_is_a_connection_error() -> None:
    with pytest.raises(ConnectionError) as caught:
        SleeperClient("127.0.0.1:9").reset()
    assert isinstance(caught.value, errors.ServerConnectionError)


# -- what comes back


def test_a_wrong_field_and_an_environment_that_raises_leave_the_session(client: SleeperClient) -> None:
    client.reset()
    with pytest.raises(errors.ValidationError, match=r"\$\.seconds"):
        client.step({"seconds": "x"})
    with pytest.raises(RuntimeError, match="kaboom") as caught:
        client.step(Nap(say="boom"))
    assert isinstance(caught.value, errors.RemoteEnvironmentError)
    assert client.step(Nap()).observation.steps == 2
    with pytest.raises(errors.ConfigError, match="'timeout_s' would not be sent"):
        client.step(Nap(), timeout_s=3)
    with pytest.raises(errors.ValidationError, match="a Struct, or a dict"):
        client.step(3)  # type: ignore[arg-type]


def test_answers_to_tool_actions_are_typed(client: SleeperClient) -> None:
    client.reset()
    result = client.step(CallToolAction(tool_name="add", arguments={"a": 1}))  # type: ignore[arg-type]
    assert isinstance(result.observation, CallToolObservation) and result.observation.result == 3
    result = client.step({"type": "list_tools"})
    assert isinstance(result.observation, ListToolsObservation)
    assert [tool.name for tool in result.observation.tools] == ["add", "fail", "hang"]


def test_f105_the_reward_of_an_episode_is_there_when_it_is_over(client: SleeperClient) -> None:
    assert client.episode_reward is None
    client.reset()
    client.step(Nap())
    client.step(Nap(say="none"))
    assert client.episode_reward is None
    assert client.step(Nap(say="end")).done
    assert client.episode_reward == 1.0
    client.reset()
    assert client.episode_reward is None
    client.step({"say": "end"})
    assert client.episode_reward == 0.5


def test_f108_episodes_of_many_sessions_in_any_order_are_their_own(sleeper_url: str) -> None:
    clients = [SleeperClient(sleeper_url) for _ in range(12)]
    order = [number for _ in range(6) for number in (*range(0, 12, 2), *range(11, 0, -2))]
    seen: dict[int, list[tuple[str, int]]] = {number: [] for number in range(12)}
    for number, each in enumerate(clients):
        each.reset(seed=number)
    for at in order:
        if at == 5 and len(seen[5]) == 3:
            clients[5].close()
        if not (at == 5 and len(seen[5]) >= 3):
            result = clients[at].step(Nap(say=f"{at}"))
            seen[at].append((result.observation.said, result.observation.steps))
    for number, steps in seen.items():
        assert steps == [(f"{number}", step) for step in range(1, len(steps) + 1)]
    for each in clients:
        each.close()


def test_subclasses_may_say_how_things_are_sent_and_read(sleeper_url: str) -> None:
    class Ported(EnvClient[Any, Any, Any]):
        def _step_payload(self, action: Any) -> dict[str, Any]:
            return {"say": action.upper()}

        def _parse_result(self, payload: dict[str, Any]) -> StepResult[Any]:
            return StepResult(observation=payload["observation"]["said"], reward=payload["reward"])

        def _parse_state(self, payload: dict[str, Any]) -> Any:
            return payload["step_count"]

    with Ported(base_url=sleeper_url) as client:
        assert client.reset().observation == "hello"
        assert client.step("hi").observation == "HI"
        assert client.state() == 1


# -- servers, sessions, ends


def test_another_session_is_of_the_same_class_and_closed_with_its_parent(client: SleeperClient) -> None:
    client.reset()
    client.step(Nap())
    other = client.new_session()
    assert type(other) is SleeperClient
    other.reset()
    assert other.step(Nap()).observation.steps == 1
    client.close()
    with pytest.raises(errors.EnvClosedError):
        other.step(Nap())


def test_another_session_needs_no_address_and_no_secret() -> None:
    client = SleeperClient(provider="inprocess", target="tests.client.sleeper:Sleeper")
    client.reset()
    other = client.new_session()
    assert other.reset().observation.said == "hello"
    client.close()


def test_pings_are_answered_while_the_program_is_busy_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert eventually(lambda: attending._thread is None)  # one that sleeps goes by the old period
    monkeypatch.setattr(attending, "_PERIOD", 0.02)
    pings: list[Any] = []
    ping = ServerConnection.ping

    def counted(connection: ServerConnection, *args: Any, **options: Any) -> Any:
        pings.append(options)
        return ping(connection, *args, **options)

    monkeypatch.setattr(ServerConnection, "ping", counted)
    with serving_json(echo, ping_interval=0.1, ping_timeout=60.0) as server:
        client = GenericEnvClient(server.url)
        client.reset()
        assert eventually(lambda: len(pings) > 2)  # each was sent after the answer to the one before
        assert client.step({"say": "there"}).observation == {"said": "there", "steps": 1}
        client.close()


def test_a_server_can_be_started_for_it() -> None:
    client = SleeperClient(
        provider="inprocess", target="tests.client.sleeper:Sleeper", env_kwargs={"greeting": "mine"}
    )
    assert client.base_url is None
    assert client.reset().observation.said == "mine"
    assert client.base_url is not None
    client.close()


class _Image:
    """A provider of OpenEnv's kind, which starts nothing."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.log: list[Any] = []

    def start_container(self, image: str, **options: Any) -> str:
        self.log.append((image, options))
        return self.url

    def wait_for_ready(self, base_url: str) -> None:
        assert base_url == self.url

    def stop_container(self) -> None:
        self.log.append("stop")


def test_an_image_is_started_and_stopped(sleeper_url: str) -> None:
    image = _Image(sleeper_url)
    client = SleeperClient.from_docker_image("echo:1", image, port=1)
    assert client.reset().observation.said == "hello"
    client.close()
    assert image.log == [("echo:1", {"port": 1}), "stop"]

    async def main() -> None:
        client = await SleeperClient.from_env("a/b", provider=image)
        assert (await client.reset()).observation.said == "hello"
        await client.close()
        sync = SleeperClient.from_docker_image("echo:2", image).sync()
        assert sync.reset().observation.said == "hello"
        sync.close()

    asyncio.run(main())
    assert image.log[2:] == [("registry.hf.space/a-b:latest", {}), "stop", ("echo:2", {}), "stop"]


def test_an_image_whose_server_does_not_answer_is_stopped() -> None:
    image = _Image("ws://127.0.0.1:9")
    with pytest.raises(errors.ServerConnectionError):
        SleeperClient.from_docker_image("echo:1", image)
    assert image.log[-1] == "stop"


def test_a_client_that_nobody_closed_says_so(sleeper_url: str) -> None:
    client = SleeperClient(sleeper_url)
    client.reset()
    with pytest.warns(ResourceWarning, match="was not closed; call close"):
        del client
        gc.collect()


def test_close_that_nobody_awaits_closes(sleeper_url: str) -> None:
    async def main() -> None:
        client = SleeperClient(sleeper_url)
        await client.reset()
        client.close()
        with pytest.raises(errors.EnvClosedError):
            await client.step(Nap())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())


def test_after_disconnect_the_next_call_opens_a_session(client: SleeperClient) -> None:
    client.reset()
    client.step(Nap())
    client.disconnect()
    assert client.state().step_count == 0
    assert client.reset().observation.steps == 0


@pytest.mark.parametrize("use", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_client_is_neither_pickled_nor_copied(client: SleeperClient, use: Any) -> None:
    client.reset()
    for one in (client, client.sync()):
        if use is not copy.copy or one is client:
            with pytest.raises(errors.NotCopyableError, match=r"SleeperClient can be neither .* new_session"):
                use(one)
    assert client.step(Nap()).observation.steps == 1


def test_results_are_pickled(client: SleeperClient) -> None:
    result = client.reset(seed=3)
    assert pickle.loads(pickle.dumps(result)) == result


@pytest.mark.parametrize("call", ["reset", "step", "state"])
def test_in_production_mode_there_are_tools_only(sleeper_url: str, call: str) -> None:
    arguments = [Nap()] if call == "step" else []
    with SleeperClient(sleeper_url, mode="production") as client:
        with pytest.raises(errors.UnsupportedError, match=rf"{call}\(\) needs mode='simulation'"):
            getattr(client, call)(*arguments)


def test_constructor_arguments_cannot_be_told_in_json() -> None:
    with serving_json(echo) as server, pytest.raises(errors.ConfigError, match="cannot hand 'greeting'"):
        SleeperClient(server.url, env_kwargs={"greeting": "x"}).reset()
