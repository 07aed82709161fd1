"""What programs do with the clients of the openenv package: ``python their_calls.py URLS [PLAY ...]``.

``URLS`` is a JSON object of base URLs: ``probe``, ``solo``, ``broken``, ``tools``, and ``echo`` and
``cartpole`` if they are there. Prints what came of each play. Runs in the virtual environment that has that
package.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

from openenv.core import EnvClient, GenericAction, GenericEnvClient, MCPToolClient
from openenv.core.client_types import StepResult
from openenv.core.env_server import Action, CallToolAction, ListToolsAction, Observation, State
from theirs import ProbeAction, ProbeObservation, ProbeState

warnings.simplefilter("error", RuntimeWarning)


class ProbeEnv(EnvClient[ProbeAction, ProbeObservation, ProbeState]):
    """As authors write them: models that refuse what they do not know."""

    def _step_payload(self, action: ProbeAction) -> dict[str, Any]:
        return action.model_dump()

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ProbeObservation]:
        fields = {**payload["observation"], "reward": payload.get("reward"), "done": payload["done"]}
        return StepResult(ProbeObservation(**fields), payload.get("reward"), payload["done"])

    def _parse_state(self, payload: dict[str, Any]) -> ProbeState:
        return ProbeState(**payload)


class EchoAction(Action):
    message: str


class EchoObservation(Observation):
    echoed_message: str
    message_length: int = 0


class EchoEnv(EnvClient[EchoAction, EchoObservation, State]):
    """The client of OpenEnv's first Echo."""

    def _step_payload(self, action: EchoAction) -> dict[str, Any]:
        return {"message": action.message}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[EchoObservation]:
        observation = EchoObservation(**payload["observation"])
        return StepResult(observation, payload.get("reward"), payload.get("done", False))

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(**payload)


def shown(value: Any) -> Any:
    """Return a result as JSON values."""
    if isinstance(value, StepResult):
        return [shown(value.observation), value.reward, value.done]
    if isinstance(value, list):
        return [shown(item) for item in value]
    if hasattr(value, "model_dump"):
        return {key: item for key, item in value.model_dump(mode="json").items() if item not in (None, {})}
    return {key: item for key, item in value.items() if item != {}} if isinstance(value, dict) else value


def failing(call: Callable[[], Any]) -> list[str]:
    """Return the class and the code of the error that a call raises."""
    try:
        call()
    except Exception as exc:
        code = re.search(r"code: (\w+)", str(exc))
        return [type(exc).__name__, code[1] if code else ""]
    return ["nothing", ""]


# -- plays


def awaited(urls: dict[str, str]) -> Any:
    async def main() -> list[Any]:
        async with GenericEnvClient(base_url=urls["probe"]) as client:
            first = await client.reset(seed=1, episode_id="mine", level=3)
            steps = [await client.step({"message": text}) for text in ("hi", "true", "nothing", "end")]
            return [shown(first), *map(shown, steps), shown(await client.state())]

    return asyncio.run(main())


def blocking(urls: dict[str, str]) -> Any:
    with GenericEnvClient(base_url=urls["probe"]).sync() as client:
        return [shown(client.reset()), shown(client.step(GenericAction(message="hi", mood="loud")))]


def unawaited(urls: dict[str, str]) -> Any:
    client = GenericEnvClient(base_url=urls["probe"])
    try:
        result = client.reset(seed=2)
        return [result.observation["echoed"], client.step({"message": "hi"}).reward]
    finally:
        client.close()


def typed(urls: dict[str, str]) -> Any:
    with ProbeEnv(base_url=urls["probe"]).sync() as client:
        first = client.reset(episode_id="mine")
        step = client.step(ProbeAction(message="hi", metadata={"tag": 1}))
        return [shown(first), shown(step), shown(client.state())]


def refused(urls: dict[str, str]) -> Any:
    with GenericEnvClient(base_url=urls["probe"]).sync() as client:
        client.reset()
        errors = [
            failing(lambda action=action: client.step(action)) for action in ({}, {"message": "kaboom"})
        ]
        return [*errors, client.step({"message": "still there"}).observation["echoed"]]


def slow(urls: dict[str, str]) -> Any:
    with GenericEnvClient(base_url=urls["probe"], message_timeout_s=5.0).sync() as client:
        client.reset()
        return failing(lambda: client.step({"message": "slow"}))


def full(urls: dict[str, str]) -> Any:
    with GenericEnvClient(base_url=urls["solo"]).sync() as client:
        client.reset()
        return failing(lambda: GenericEnvClient(base_url=urls["solo"]).sync().reset())


def broken(urls: dict[str, str]) -> Any:
    return failing(lambda: GenericEnvClient(base_url=urls["broken"]).sync().reset())


def tools(urls: dict[str, str]) -> Any:
    async def main() -> list[Any]:
        async with MCPToolClient(base_url=urls["tools"]) as client:
            await client.reset()
            listed = await client.list_tools()
            results = [await client.call_tool("add", a=1), await client.call_tool("describe", word="hi")]
            step = await client.step(CallToolAction(tool_name="add", arguments={"a": 1, "b": 5}))
            names = [tool.name for tool in (await client.step(ListToolsAction())).observation.tools]
            return [
                shown(listed),
                results,
                step.observation.result["data"],
                step.reward,
                names,
            ]

    return asyncio.run(main())


def failing_tools(urls: dict[str, str]) -> Any:
    with MCPToolClient(base_url=urls["tools"]).sync() as client:
        calls = (("fail", {"why": "q"}), ("nope", {}), ("add", {"c": 1}))
        return [failing(lambda call=call: client.call_tool(call[0], **call[1])) for call in calls]


def echo(urls: dict[str, str]) -> Any:
    with EchoEnv(base_url=urls["echo"]).sync() as client:
        first = client.reset()
        step = client.step(EchoAction(message="Hello, World!"))
        return [shown(first), shown(step), client.state().step_count]


def echo_tools(urls: dict[str, str]) -> Any:
    async def main() -> list[Any]:
        async with MCPToolClient(base_url=urls["echo"]) as client:
            first = (await client.reset()).observation.echoed_message
            step = await client.step(
                CallToolAction(tool_name="echo_message", arguments={"message": "Hello, World!"})
            )
            length = await client.call_tool("echo_with_length", message="hi")
            return [first, step.observation.result["data"], step.reward, length]

    return asyncio.run(main())


def cartpole(urls: dict[str, str]) -> Any:
    with GenericEnvClient(base_url=urls["cartpole"]).sync() as client:
        first = client.reset(seed=7)
        step = client.step({"action": 1})
        return [first.observation["observation"], shown(step), client.state()["step_count"]]


SHARED = (awaited, blocking, unawaited, typed, refused, slow, full, broken, tools, failing_tools)
OURS = {"echo": (echo, echo_tools), "cartpole": (cartpole,)}

if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    plays = [*SHARED, *(play for kind in OURS if kind in given for play in OURS[kind])]
    plays = [play for play in plays if play.__name__ in sys.argv[2:] or not sys.argv[2:]]
    print(json.dumps({play.__name__: play(given) for play in plays}))
