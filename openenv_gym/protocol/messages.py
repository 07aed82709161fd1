"""The messages of the binary protocol, ``openenv.msgpack.v1``; docs/protocol.md gives their bytes.

Rules of evolution:

* A message is a MessagePack map; ``type`` names it. A field that has its default is left out.
* In ``hello``, ``resume`` and ``welcome`` unknown fields are ignored, so both sides can grow there; what a
  peer can do is said in ``capabilities``. In every other message an unknown field is an error that names it.
* A new field of such a message is sent only to a peer that announced the capability it belongs to.
* A field is never removed, renamed or given another meaning within one version.

Fields called ``observations``, ``actions`` are columns (:mod:`.columns`), laid out by the space for all lanes
of the message. Fields of type ``Any`` otherwise hold self-described values (:mod:`.values`).
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "SUBPROTOCOL",
    "VERSION",
    "Call",
    "Close",
    "Closed",
    "Error",
    "Frames",
    "Get",
    "Hello",
    "Limits",
    "Observation",
    "Render",
    "Reply",
    "Request",
    "Reset",
    "Resume",
    "Resumed",
    "Set",
    "State",
    "Step",
    "Transition",
    "Value",
    "Welcome",
]

SUBPROTOCOL = "openenv.msgpack.v1"
VERSION = 1


class _Open(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A message that may carry fields this version does not know."""


class _Strict(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A message in which an unknown field is an error."""


class Limits(msgspec.Struct, omit_defaults=True, kw_only=True, frozen=True):
    """What one side accepts. Zero: no limit.

    Attributes:
        message: Largest message in bytes.
        lanes: Most lanes in one session (of a server).
        depth: Deepest nesting of values.
        step, reset, construction: Deadlines in seconds (of a server; a client may ask for shorter ones).
        resume: For how many seconds a server keeps the session of a lost connection.
    """

    message: int = 0
    lanes: int = 0
    depth: int = 0
    step: float = 0.0
    reset: float = 0.0
    construction: float = 0.0
    resume: float = 0.0


class Hello(_Open, tag="hello"):
    """Client: open a session.

    Attributes:
        session: Chosen by the client, 32 lower-case hexadecimal digits; not secret.
        token: Chosen by the client, 16 random bytes; whoever knows it may resume the session.
        lanes: How many copies of the environment the session holds.
        autoreset: ``"disabled"``, ``"next_step"`` or ``"same_step"``.
        env_kwargs: Keyword arguments of the constructor, or a list of such maps, one a lane.
        expect: The target the client's id promises; ``None`` takes whatever is served.
        time_limit: Whether the environment keeps the time limit that its registration gives it.
        slot_timeout: Seconds to wait for a free slot.
        native: Whether the lanes are the environment's own vector class.
    """

    session: str
    token: bytes
    version: int = VERSION
    capabilities: list[str] = []
    lanes: int = 1
    autoreset: str = "disabled"
    env_kwargs: Any = None
    render_mode: str | None = None
    expect: str | None = None
    time_limit: bool = True
    slot_timeout: float = 0.0
    native: bool = False
    limits: Limits = Limits()
    client: str = ""


class Resume(_Open, tag="resume"):
    """Client: go on with a session whose connection was lost."""

    session: str
    token: bytes
    version: int = VERSION


class Reset(_Strict, tag="reset"):
    """Client: start episodes. ``seeds``: one a lane (int or nil); ``mask``: one byte a lane, 1 = reset it."""

    id: int
    seeds: list[Any] | None = None
    options: Any = None
    mask: bytes | None = None


class Step(_Strict, tag="step"):
    """Client: step lanes.

    ``lanes`` (little-endian uint32 indices) names the lanes that ``actions`` is for; nil: all.
    ``wait`` is the number of finished lanes that the reply waits for; nil: all that run.
    """

    id: int
    actions: Any
    lanes: bytes | None = None
    wait: int | None = None


class Render(_Strict, tag="render"):
    """Client: render every lane."""

    id: int


class Get(_Strict, tag="get"):
    """Client: read a public attribute of every lane."""

    id: int
    name: str


class Set(_Strict, tag="set"):
    """Client: set a public attribute; ``values`` has one value a lane."""

    id: int
    name: str
    values: list[Any]


class Call(_Strict, tag="call"):
    """Client: call a public method of every lane."""

    id: int
    name: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}


class State(_Strict, tag="state"):
    """Client: read the state of every lane (typed environments)."""

    id: int


class Close(_Strict, tag="close"):
    """Client: end the session."""

    id: int


class Welcome(_Open, tag="welcome"):
    """Server: the session is open.

    Attributes:
        target: Canonical name of what is served; compare with ``Hello.expect``.
        observation_space, action_space: Wire specs (:mod:`.specs`), of one lane.
        metadata: The environment's own, as far as its values travel.
        render_mode: The environment's own.
        spec: ``max_episode_steps``, ``reward_threshold``, ``nondeterministic`` of the environment's registration.
        schemas: JSON Schemas of ``action``, ``observation``, ``state``.
    """

    session: str
    token: bytes
    version: int = VERSION
    capabilities: list[str] = []
    target: str = ""
    lanes: int = 1
    observation_space: Any = None
    action_space: Any = None
    metadata: Any = None
    render_mode: str | None = None
    spec: Any = None
    schemas: Any = None
    limits: Limits = Limits()
    server: str = ""


class Resumed(_Open, tag="resumed"):
    """Server: the session goes on. ``last`` is the id of the last request it executed (0: none)."""

    session: str
    last: int = 0


class Observation(_Strict, tag="observation"):
    """Server: answer to ``reset``. ``lanes`` as in ``step``; nil: all. ``infos`` nil: all empty."""

    id: int
    observations: Any = None
    infos: list[Any] | None = None
    lanes: bytes | None = None
    warnings: list[str] = []


class Transition(_Strict, tag="transition"):
    """Server: answer to ``step``.

    Attributes:
        rewards: One little-endian float64 a lane, or a list of self-described values.
        flags: One byte a lane: 1 terminated, 2 truncated, 4 terminated was a numpy bool,
            8 truncated was a numpy bool, 16 the lane was reset in this step.
        final_observations: Column of the lanes with flag 16 (autoreset ``same_step``).
        timing: Nanoseconds spent in the environment, when the client asked for it.
    """

    id: int
    observations: Any
    rewards: Any
    flags: bytes
    infos: list[Any] | None = None
    lanes: bytes | None = None
    final_observations: Any = None
    final_infos: list[Any] | None = None
    timing: list[int] | None = None
    warnings: list[str] = []


class Frames(_Strict, tag="frames"):
    """Server: answer to ``render``, one value a lane."""

    id: int
    frames: list[Any]


class Value(_Strict, tag="value"):
    """Server: answer to ``get``, ``set``, ``call``, ``state``, one value a lane.

    ``callable`` says that the attribute is a method, which ``call`` reaches.
    """

    id: int
    values: list[Any]
    callable: bool = False


class Closed(_Strict, tag="closed"):
    """Server: the session has ended and the environment is closed."""

    id: int


class Error(_Strict, tag="error"):
    """Server: the request failed.

    Attributes:
        id: The request, or 0 when the error answers none (or one that could not be read).
        code: See :class:`openenv_gym.errors.ErrorCode`.
        alive: Whether the session goes on.
        details: Facts that go with it; see the error classes.
    """

    code: str
    message: str
    id: int = 0
    alive: bool = False
    details: dict[str, Any] = {}


Request = Hello | Resume | Reset | Step | Render | Get | Set | Call | State | Close
Reply = Welcome | Resumed | Observation | Transition | Frames | Value | Closed | Error
