"""Sessions that show an environment as maps of fields."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from openenv_gym.errors import (
    RemoteProtocolError,
    ResetNeededError,
    ToolNotFoundError,
    UnsupportedError,
    ValidationError,
)
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import decode_reply, encode
from openenv_gym.protocol.values import unpack_ext
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.targets import resolve
from openenv_gym.servers.typed_stage import TypedStage, build_typed
from tests.support.typedenvs import ENOUGH

_HERE = "tests.support.typedenvs"


class Talk:
    """A session without a connection; replies are decoded as a client's."""

    def __init__(self, text: str, **kwargs: Any) -> None:
        target = resolve(text)
        make = lambda lane: target.build(kwargs)  # noqa: E731 (one line says it)
        self.stage: TypedStage
        self.stage, self.facts = build_typed(ServerSettings(), target, make)
        self.count = 0

    def __call__(self, kind: Any, *args: Any) -> Any:
        self.count += 1
        return decode_reply(encode(self.stage.answer(kind(self.count, *args))))


@pytest.fixture
def talk() -> Iterator[Callable[..., Talk]]:
    """Make sessions, which are closed in the end."""
    made: list[Talk] = []

    def make(text: str, **kwargs: Any) -> Talk:
        made.append(Talk(text if "-" in text else f"{_HERE}:{text}", **kwargs))
        return made[-1]

    yield make
    for one in made:
        one.stage.close()


@pytest.fixture
def soon() -> Iterator[Callable[[], None]]:
    """Return what ends the calls that hang, a little later."""
    timers: list[threading.Timer] = []

    def end() -> None:
        timers.append(threading.Timer(0.05, ENOUGH.set))
        timers[-1].start()

    yield end
    for timer in timers:
        timer.join()
    ENOUGH.clear()


def _facts(session: Talk, name: str) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(session.facts[name]), ext_hook=unpack_ext)


def test_an_episode_in_maps(talk: Callable[..., Talk]) -> None:
    session = talk("GuessNumber", highest=1)
    first = session(m.Reset, [7], {"episode_id": "mine", "level": 2})
    assert (first.observations, first.rewards, first.flags) == ({"text": "between 1 and 1"}, [None], b"\0")
    assert first.infos == [{"level": 2}]
    last = session(m.Step, {"number": 1})
    assert (last.observations, last.rewards, last.flags) == ({"text": "that is it"}, [1.0], b"\1")
    assert last.infos is None
    assert session(m.State).values == [{"episode_id": "mine", "step_count": 1}]


def test_arrays_states_and_rubrics(talk: Callable[..., Talk]) -> None:
    session = talk("Walk")
    session(m.Reset)
    session(m.Step, {"direction": "right"})
    last = session(m.Step, {"direction": "right"})
    np.testing.assert_array_equal(last.observations["picture"], np.full((2, 3), 2, np.uint8))
    assert (last.observations["at"], last.rewards, last.flags) == (2, [1.0], b"\1")
    assert last.infos[0]["rubric"]["credit"] == {"": [0.5, 1.0]}
    assert session(m.State).values[0]["furthest"] == 2


def test_what_welcome_says(talk: Callable[..., Talk]) -> None:
    session = talk("Walk")
    assert _facts(session, "capabilities") == ["typed"]
    schemas = _facts(session, "schemas")
    assert schemas["action"]["properties"]["direction"]["enum"] == ["left", "right"]
    assert set(schemas["state"]["properties"]) == {"episode_id", "step_count", "furthest"}
    assert _facts(talk("Calculator"), "capabilities") == ["typed", "tools"]


@pytest.mark.parametrize(
    ("action", "path"),
    [
        ({}, "$.number"),
        ({"number": "1"}, "$.number"),
        ({"number": 101}, "$.number"),
        ({"number": 1, "size": 2}, "$.size"),
        ([1], "$"),
        (None, "$"),
    ],
)
def test_a_wrong_field_is_named_and_the_session_goes_on(
    talk: Callable[..., Talk], action: Any, path: str
) -> None:
    session = talk("GuessNumber", highest=1)
    session(m.Reset)
    with pytest.raises(ValidationError) as caught:
        session(m.Step, action)
    assert caught.value.details["path"] == path
    assert session(m.Step, {"number": 1}).flags == b"\1"


def test_f042_an_action_is_not_taken_for_a_call_where_there_are_no_tools(talk: Callable[..., Talk]) -> None:
    session = talk("GuessNumber")
    session(m.Reset)
    before = session(m.State).values
    with pytest.raises(ValidationError):
        session(m.Step, {"type": "call_tool", "tool_name": "add", "arguments": {}})
    assert session(m.State).values == before


def test_tools_by_step_and_by_question(talk: Callable[..., Talk]) -> None:
    session = talk("Calculator")
    call = {"type": "call_tool", "tool_name": "add", "arguments": {"a": 1, "b": 2}}
    fields = session(m.Step, call).observations
    assert (fields["tool_name"], fields["error"], fields["result"]["data"]) == ("add", None, 3)
    assert fields["result"]["structured_content"] == {"result": 3}
    asked = session(m.Ask, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}).values[0]
    assert asked == fields["result"]
    listed = session(m.Step, {"type": "list_tools"}).observations["tools"]
    assert listed == session(m.Ask, "tools/list").values[0]
    assert session(m.Ask, "metadata").values[0]["name"] == "Calculator"


def test_what_cannot_be_asked_is_an_error(talk: Callable[..., Talk]) -> None:
    session = talk("Calculator")
    with pytest.raises(ToolNotFoundError):
        session(m.Ask, "tools/call", {"name": "sub"})
    with pytest.raises(ValidationError):
        session(m.Ask, "tools/call", {"name": "add", "arguments": {"a": "1", "b": 2}})
    with pytest.raises(UnsupportedError):
        session(m.Ask, "weather")


@pytest.mark.parametrize("asked", [False, True])
def test_f099_a_tool_that_overruns_is_answered_and_what_follows_waits(
    talk: Callable[..., Talk], soon: Callable[[], None], asked: bool
) -> None:
    session = talk("Calculator")
    arguments = {"seconds": 20.0}
    if asked:
        reply = session(m.Ask, "tools/call", {"name": "hang", "arguments": arguments}).values[0]
        assert reply["is_error"]
        assert "'hang' did not return within 0.05 s" in reply["content"][0]["text"]
    else:
        fields = session(
            m.Step, {"type": "call_tool", "tool_name": "hang", "arguments": arguments}
        ).observations
        assert fields["error"]["error_type"] == "timeout"
    soon()
    assert session(m.Ask, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 1}}).values[0]["data"] == 2
    ENOUGH.clear()
    allowed = {"name": "hang", "arguments": {"seconds": 0.1}, "timeout": 20.0}
    assert session(m.Ask, "tools/call", allowed).values[0]["data"] == "awake"


def test_a_gymnasium_environment_in_maps(talk: Callable[..., Talk]) -> None:
    session = talk("CartPole-v1")
    with pytest.raises(ResetNeededError):
        session(m.Step, {"action": 1})
    first = session(m.Reset, [3], None)
    assert first.observations["observation"].dtype == np.float32
    reply = session(m.Step, {"action": 1})
    assert (reply.rewards, reply.flags) == ([1.0], b"\0")
    assert session(m.State).values[0]["step_count"] == 1
    assert _facts(session, "schemas")["action"]["properties"]["action"]["maximum"] == 1
    for action, path in (({"action": 2}, "$.action"), ({}, "$.action"), ({"action": 1, "x": 1}, "$.x")):
        with pytest.raises(ValidationError) as caught:
            session(m.Step, action)
        assert caught.value.details["path"] == path
    with pytest.raises(UnsupportedError):
        session(m.Ask, "tools/list")


@pytest.mark.parametrize(
    ("kind", "args"),
    [(m.Reset, ([1, 2],)), (m.Reset, (None, None, b"\1")), (m.Reset, (None, [1])), (m.Step, ({}, b""))],
)
def test_what_belongs_to_lanes_is_refused(talk: Callable[..., Talk], kind: Any, args: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        talk("GuessNumber")(kind, *args)


@pytest.mark.parametrize("timeout", [float("inf"), 1e300])
def test_a_call_may_take_as_long_as_it_likes(talk: Callable[..., Talk], timeout: float) -> None:
    session = talk("Calculator")
    for a in (1, 2):  # each answer belongs to its own question
        call = {"name": "add", "arguments": {"a": a, "b": 0}, "timeout": timeout}
        assert session(m.Ask, "tools/call", call).values[0]["data"] == a


def test_f099_a_call_that_cannot_begin_is_answered_in_time_too(
    talk: Callable[..., Talk], soon: Callable[[], None]
) -> None:
    session = talk("Calculator")
    session(m.Ask, "tools/call", {"name": "hang", "arguments": {"seconds": 20.0}})
    late = {"name": "add", "arguments": {"a": 1, "b": 1}, "timeout": 0.05}
    reply = session(m.Ask, "tools/call", late).values[0]
    assert reply["is_error"]
    assert reply["content"][0]["text"].startswith("the tool 'add' was not called: an earlier call still runs")
    soon()
    steps = session(m.State).values[0]["step_count"]  # this waits
    assert session(m.Ask, "tools/call", {**late, "timeout": 20.0}).values[0]["data"] == 2
    assert session(m.State).values[0]["step_count"] == steps + 1
