"""The messages of the binary protocol, ``openenv.msgpack.v1``; docs/protocol.md gives their bytes.

Rules of evolution:

* A message is a MessagePack map; ``type`` names it. A field that has its default is left out.
* In ``hello``, ``resume``, ``welcome``, ``resumed`` and limits unknown fields are ignored, so both sides can
  grow there; what a peer can do is said in ``capabilities``. Elsewhere an unknown field is an error that
  names it.
* A new field of such a message is sent only to a peer that announced the capability it belongs to.
* A field is never removed, renamed or given another meaning within one version.

Fields called ``observations``, ``actions`` are columns (:mod:`.columns`), laid out by the space for all lanes
of the message. Fields of type ``Any`` otherwise hold self-described values (:mod:`.values`).

A session has *lanes*, copies of one environment, numbered from 0. ``lanes`` of a request or reply
(little-endian uint32 indices) names those that it is about, in the order of its columns and lists; nil: all,
from 0 on. Where the lanes are the environment's own vector class (``native``) they act together: ``lanes``,
``wait`` and ``failed`` are not used, and what else differs is said at the field.

With the face ``typed`` actions, observations and states are self-described maps: ``actions`` is the map of
an action, ``observations`` that of an observation without ``done``, ``terminated``, ``truncated``, ``reward``
and ``metadata``, which are ``flags``, ``rewards`` and ``infos``; ``Reset.options`` are the keyword arguments
of ``reset`` beside the seed; ``Welcome.capabilities`` has ``"typed"``, and ``"tools"`` when there are any.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "SUBPROTOCOL",
    "VERSION",
    "Ask",
    "Call",
    "Close",
    "Closed",
    "Error",
    "Frames",
    "Get",
    "Hello",
    "LaneFailure",
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
        episode: Steps after which a client wants episodes truncated; it replaces the registration's limit.
        threads: On how many threads a client wants its lanes to run; 0: as the server finds best.
    """

    message: int = 0
    lanes: int = 0
    depth: int = 0
    step: float = 0.0
    reset: float = 0.0
    construction: float = 0.0
    resume: float = 0.0
    episode: int = 0
    threads: int = 0


class Hello(_Open, tag="hello"):
    """Client: open a session.

    Attributes:
        session: Chosen by the client, 32 lower-case hexadecimal digits; not secret.
        token: Chosen by the client, 16 random bytes; whoever knows it may resume the session.
        capabilities: ``"lanes"``: the client reads ``failed``, and wants it with one lane too;
            ``"timing"``: it wants ``Transition.timing``.
        lanes: How many copies of the environment the session holds.
        autoreset: ``"disabled"``, ``"next_step"`` or ``"same_step"``; with ``native`` also ``"any"``.
        env_kwargs: Keyword arguments of the constructor, or a list of such maps, one a lane.
        expect: The target the client's id promises; ``None`` takes whatever is served.
        time_limit: Whether the environment keeps the time limit that its registration gives it.
        slot_timeout: Seconds to wait for a free slot.
        native: Whether the lanes are the environment's own vector class.
        group: Sessions of a client that belong together and are to be spread over the workers.
        face: How the environment shows itself: ``""``, values of its spaces; ``"typed"``, maps of the fields
            of actions, observations and states (one lane, not ``native``).
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
    group: str = ""
    face: str = ""


class Resume(_Open, tag="resume"):
    """Client: go on with a session whose connection was lost."""

    session: str
    token: bytes
    version: int = VERSION


class Reset(_Strict, tag="reset"):
    """Client: start episodes.

    Attributes:
        seeds: For each lane of the session an int or nil; ``native``: one value, given to the class as it is.
        mask: One byte for each lane of the session, 1 = reset it; nil: all. What such a lane was doing is
            waited for and its result dropped.
    """

    id: int
    seeds: list[Any] | None = None
    options: Any = None
    mask: bytes | None = None


class Step(_Strict, tag="step"):
    """Client: start steps and collect finished ones.

    Attributes:
        actions: Column of the lanes in ``lanes``; nil when there are none.
        lanes: The lanes to step, none of which may run; empty: only collect.
        wait: How many finished lanes the reply waits for (at most those that run); nil: all that run. The
            reply has every lane that has finished, perhaps more than ``wait``, and each of them once.
        patience: For how many seconds it waits for them; the reply may then have fewer. nil: as long as it
            takes.
    """

    id: int
    actions: Any
    lanes: bytes | None = None
    wait: int | None = None
    patience: float | None = None


class Render(_Strict, tag="render"):
    """Client: render every lane."""

    id: int


class Get(_Strict, tag="get"):
    """Client: read a public attribute of every lane."""

    id: int
    name: str


class Set(_Strict, tag="set"):
    """Client: set a public attribute; ``values`` has one value a lane, ``lanes`` as for :class:`Call`."""

    id: int
    name: str
    values: list[Any]
    lanes: bytes | None = None


class Call(_Strict, tag="call"):
    """Client: call a public method of every lane, or of those in ``lanes``: a uint32 each."""

    id: int
    name: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    lanes: bytes | None = None


class State(_Strict, tag="state"):
    """Client: read the state of every lane (typed environments)."""

    id: int


class Ask(_Strict, tag="ask"):
    """Client: ask the environment for something besides stepping (face ``typed``).

    Attributes:
        topic: What: ``"metadata"``, ``"tools/list"``, ``"tools/call"``, ``"tasks/..."``.
        arguments: Its arguments by name.
    """

    id: int
    topic: str
    arguments: dict[str, Any] = {}


class Close(_Strict, tag="close"):
    """Client: end the session."""

    id: int


class LaneFailure(_Strict, kw_only=True):
    """A lane that raised: part of ``observation`` and ``transition``; its place in their columns is left out.

    The other lanes' results are there. The lane needs a reset before it steps again.

    Attributes:
        lane: Its index.
        code, message, details: As in :class:`Error`.
    """

    lane: int
    code: str
    message: str
    details: dict[str, Any] = {}


class Welcome(_Open, tag="welcome"):
    """Server: the session is open.

    Attributes:
        target: Canonical name of what is served; compare with ``Hello.expect``.
        observation_space, action_space: Wire specs (:mod:`.specs`), of one lane.
        metadata: The environment's own, as far as its values travel.
        render_mode: The environment's own.
        spec: ``max_episode_steps``, ``reward_threshold``, ``nondeterministic`` of the environment's
            registration.
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
    """Server: answer to ``reset``.

    Attributes:
        infos: One map a lane; nil: all empty.
        lanes: The lanes that were reset, in order.
        failed: The lanes that raised.
        batch_info: ``native``: the info of all lanes.
        rewards, flags: Face ``typed``: as in :class:`Transition`.
    """

    id: int
    observations: Any = None
    infos: list[Any] | None = None
    lanes: bytes | None = None
    warnings: list[str] = []
    failed: list[LaneFailure] = []
    batch_info: Any = None
    rewards: Any = None
    flags: bytes | None = None


class Transition(_Strict, tag="transition"):
    """Server: answer to ``step``.

    Attributes:
        rewards: One little-endian float64 a lane; of a single lane without the capability ``lanes`` perhaps a
            list of one self-described value; ``native``: perhaps a list of one array of all lanes.
        flags: One byte a lane: 1 terminated, 2 truncated, 4 terminated was a numpy bool,
            8 truncated was a numpy bool (these two with one lane only), 16 the lane was reset in this step.
        infos: One map a lane; nil: all empty.
        lanes: The finished lanes; nil: all. In order when the reply waited for all that run, else as they
            finished.
        final_observations: Column of the lanes with flag 16 (autoreset ``same_step``): where their episodes
            ended.
        final_infos: Their last infos; nil: all empty.
        timing: With the capability ``timing``, nanoseconds: those that the server spent on columns; then for
            each lane of the reply how long it waited for its turn, and how long its environment worked
            (``native``: one such pair).
        failed: The lanes that raised; they count as finished.
        batch_info: ``native``: the info of all lanes.
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
    failed: list[LaneFailure] = []
    batch_info: Any = None


class Frames(_Strict, tag="frames"):
    """Server: answer to ``render``, one value a lane; ``native``: one, what ``render()`` returned."""

    id: int
    frames: list[Any]


class Value(_Strict, tag="value"):
    """Server: answer to ``get``, ``set``, ``call``, ``state``, ``ask``: one value a lane (``native``: one).

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


Request = Hello | Resume | Reset | Step | Render | Get | Set | Call | State | Ask | Close
Reply = Welcome | Resumed | Observation | Transition | Frames | Value | Closed | Error
