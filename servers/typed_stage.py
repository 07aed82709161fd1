"""A session with the face ``typed``: requests and replies as maps of fields."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import gymnasium as gym

from openenv_gym.errors import RemoteProtocolError
from openenv_gym.models import CallToolObservation, ToolError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.values import pack
from openenv_gym.structs import to_map
from openenv_gym.tools import error_form

from .access import Access, release
from .faces import Face, Shown, face_of
from .lane import facts_of
from .lane_threads import LaneThreads, OneThread, Runner
from .settings import ServerSettings
from .targets import Target

__all__ = ["TypedStage", "about", "build_typed", "face_facts", "told_about"]

_LOG = logging.getLogger("openenv_gym.server")
_GRACE = 0.5
"""Seconds that a tool which keeps its deadline itself may take to say so."""
_CLOSING = 10.0
_LONGEST = 1e9
"""Seconds; what waits on a lock cannot wait longer."""


def build_typed(
    settings: ServerSettings, target: Target, make: Callable[[int], gym.Env[Any, Any]], *, tell: bool = False
) -> tuple[TypedStage, dict[str, Any]]:
    """Build an environment that shows itself as maps; return it and what ``welcome`` says of it.

    With ``tell``, ``about`` in the latter is what the server will answer to those who ask about it.

    Where there are tools, it gets a thread of its own, so that somebody is left to say that one overran.
    """
    runner: Runner = LaneThreads(1, 1) if target.has_tools() else OneThread(1)

    def build(lane: int) -> tuple[Access, Face, dict[str, Any]]:
        env = make(lane)
        try:
            face = face_of(env, target.name)
            facts = {**facts_of(env, target.name, target.spec()), **face_facts(face)}
            if tell:
                facts |= told_about(face, facts)
        except BaseException:
            env.close()
            raise
        return Access(env, attributes=settings.attributes), face, facts

    results = runner.run([build], [0])
    if results.failed:
        runner.finish(lambda lanes: None, _CLOSING)
        raise results.failed[0][1]
    access, face, facts = results.values[0]
    return TypedStage(access, face, runner), facts


def face_facts(face: Face) -> dict[str, Any]:
    """Return what ``welcome`` says of a face, packed."""
    return {
        "schemas": pack(face.schemas(), "schemas"),
        "capabilities": ["typed", "tools"] if face.has_tools else ["typed"],
    }


def about(face: Face, facts: dict[str, Any]) -> dict[str, Any]:
    """Return all that can be said of an environment, packed: ``facts``, its face, what it says of itself."""
    return {**facts, **face_facts(face), "own": pack(face.ask("metadata", {}), "metadata")}


def told_about(face: Face, facts: dict[str, Any]) -> dict[str, Any]:
    """Return :func:`about` as ``about``, and nothing where that fails, for a session does not need it."""
    try:
        return {"about": about(face, facts)}
    except Exception as exc:
        _LOG.info("the environment could not be described in passing: %r", exc)
        return {}


class _BusyError(TimeoutError):
    """A call could not begin, because of one that overran."""


class TypedStage:
    """One environment that shows itself as maps of fields.

    Args:
        access: The environment.
        face: The same, as maps.
        runner: The thread on which it was built, and on which everything is done; a call of a tool that
            overruns keeps it busy, and is answered for all that.
    """

    spent: Any = None

    def __init__(self, access: Access, face: Face, runner: Runner) -> None:
        self._access = access
        self._face = face
        self._runner = runner
        self._alone = isinstance(runner, OneThread)
        self._answers: dict[type, Callable[[Any], m.Reply]] = {
            m.Step: self._step,
            m.Reset: self._reset,
            m.State: self._state,
            m.Ask: self._ask,
            m.Render: access.render,
            m.Get: access.get,
            m.Set: access.set,
            m.Call: access.call,
        }

    def answer(self, request: Any) -> m.Reply:
        """Carry out ``request``; raises what the environment raises."""
        answer = self._answers.get(type(request))
        if answer is None:
            raise RemoteProtocolError(f"this environment has no '{type(request).__struct_config__.tag}'")
        if self._alone:  # its thread is this one
            return answer(request)
        call = _call_in(request) if self._face.has_tools else None
        if call is None:
            return self._run(answer, request, None)
        name, asked = call
        patience = self._face.patience(name, asked)
        try:
            return self._run(answer, request, patience)
        except _BusyError:
            text = f"the tool {name!r} was not called: an earlier call still runs, {patience:g} s later"
        except TimeoutError:
            text = (
                f"the tool {name!r} did not return within {patience:g} s and goes on; what is asked next"
                " waits for it. timeout= of the call or @tool, or the environment's tool_timeout, gives more"
            )
        return _too_late(request, name, text)

    def close(self) -> None:
        """Close the environment on its thread."""
        access = self._access
        self._answers.clear()
        del self._face
        self._runner.finish(lambda lanes: release([access] if lanes else []), _CLOSING)

    # -- where it runs

    def _run(self, work: Callable[[Any], m.Reply], request: Any, patience: float | None) -> m.Reply:
        """Return ``work(request)``; raises TimeoutError when that takes longer than ``patience``."""
        if self._runner.running == 0 and patience is None:
            results = self._runner.run([work], [request])
        else:
            results = self._wait(work, request, patience)
        if results.failed:
            raise results.failed[-1][1]
        reply: m.Reply = results.values[-1]
        return reply

    def _wait(self, work: Callable[[Any], m.Reply], request: Any, patience: float | None) -> Any:
        """Run a job after those that are overdue, whose results nobody wants any more."""
        runner = self._runner
        until = None if patience is None else monotonic() + min(patience, _LONGEST) + _GRACE
        if runner.running:
            runner.collect(runner.running, until)
        if runner.running:
            raise _BusyError
        runner.start([0], [work], [request])
        results = runner.collect(1, until)
        if runner.running:
            raise TimeoutError
        return results

    # -- requests, on the environment's thread

    def _reset(self, request: m.Reset) -> m.Observation:
        seeds, options = request.seeds, request.options
        if seeds is not None and len(seeds) != 1:
            raise RemoteProtocolError(f"'reset' has {len(seeds)} seeds for one lane")
        if request.mask is not None or not isinstance(options, Mapping | None):
            raise RemoteProtocolError("'reset' has a mask, or options that are no map")
        shown = self._face.reset(seeds[0] if seeds else None, dict(options or {}))
        fields, rewards, flags, infos = _packed(shown)
        return m.Observation(request.id, fields, infos, rewards=rewards, flags=flags)

    def _step(self, request: m.Step) -> m.Transition:
        if request.lanes is not None or request.wait is not None or request.patience is not None:
            raise RemoteProtocolError("'step' names lanes; a session with the face 'typed' has one")
        return m.Transition(request.id, *_packed(self._face.step(request.actions)))

    def _state(self, request: m.State) -> m.Value:
        return m.Value(request.id, [pack(self._face.state(), "state")])

    def _ask(self, request: m.Ask) -> m.Value:
        return m.Value(request.id, [pack(self._face.ask(request.topic, request.arguments), request.topic)])


def _too_late(request: Any, name: str, text: str) -> m.Reply:
    if isinstance(request, m.Ask):
        return m.Value(request.id, [pack(error_form(text), "tools/call")])
    error = ToolError(error_type="timeout", message=text)
    observation = CallToolObservation(tool_name=name, error=error)
    return m.Transition(request.id, *_packed(Shown(to_map(observation), None, False, False, {})))


def _call_in(request: Any) -> tuple[str, Any] | None:
    """Return name and timeout of the tool that a request calls; ``None``: it calls none."""
    found: Mapping[str, Any]
    if isinstance(request, m.Ask) and request.topic == "tools/call":
        found, name = request.arguments, "name"
    elif isinstance(request, m.Step) and isinstance(request.actions, Mapping):
        found, name = request.actions, "tool_name"
    else:
        return None
    return (found[name], found.get("timeout")) if isinstance(found.get(name), str) else None


def _packed(shown: Shown) -> tuple[Any, list[Any], bytes, list[Any] | None]:
    flags = bytes([shown.terminated | shown.truncated << 1])
    infos = [pack(shown.metadata, "metadata", opaque=True)] if shown.metadata else None
    return pack(shown.fields, "obs"), [pack(shown.reward, "reward")], flags, infos
