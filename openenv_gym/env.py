"""A remote environment as an ordinary ``gymnasium.Env``."""

from __future__ import annotations

import copy
import logging
import struct
import sys
import warnings
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from . import __version__
from . import spaces as spaces  # its import makes our own spaces known to the wire
from .client.episode import INTERRUPTED, Episode
from .client.opening import Opener, take_target
from .client.secrets import redact
from .client.settings import take_settings
from .client.stopwatch import StepTimes, Stopwatch
from .client.sync import Connection
from .errors import (
    ConfigError,
    EnvClosedError,
    EnvironmentMismatchError,
    NotCopyableError,
    RemoteProtocolError,
    ServerConnectionError,
    SessionLostError,
)
from .foreign import ForeignConnection, translation
from .protocol.messages import Render, Reset, Step
from .protocol.values import pack
from .session_holder import RESET_FAILED, SessionHolder

__all__ = ["RemoteEnv"]

_LOG = logging.getLogger("openenv_gym.client")
_PRINTED = logging.getLogger("openenv_gym.server")
_DOUBLE = struct.Struct("<d").unpack
#: Flags of a transition to ``terminated`` and ``truncated``, in the type the environment returned.
_FLAGS = [
    tuple(np.bool_(bool(flags & bit)) if flags & (bit << 2) else bool(flags & bit) for bit in (1, 2))
    for flags in range(32)
]


class RemoteEnv(SessionHolder, gym.Env[Any, Any]):
    """An environment that runs in an environment server.

    Made by ``gym.make``: ``openenv/Echo-v0``, ``openenv/Gym-v0`` (``env_id=``), ``openenv/Remote-v0``
    (``base_url=``), ``remote/<id>`` (mirrors) and ids made by :func:`openenv_gym.register`.

    Observations, rewards, flags and infos are those of the environment, type and bits included. Public
    attributes and methods that this class lacks are those of the remote environment: ``env.unwrapped.x``,
    ``env.get_wrapper_attr("x")``; setting one sets it there.

    A request is executed at most once. A lost connection is resumed; when the session itself is lost, a typed
    error is raised and :meth:`reset` opens a new session. With ``on_error="truncate"`` :meth:`step` then
    returns the last observation, reward 0.0, ``truncated=True`` and ``info["openenv"]``, a dict with
    ``error`` (code), ``message`` and ``server``. What the environment itself raises is always raised.

    Args:
        target: What the server hosts, as ``python -m openenv_gym.serve`` takes it; ``None``: whatever the
            server at ``base_url`` hosts.
        render_mode: The environment's render mode.
        time_limit: Whether the environment keeps the time limit of its registration.
        kwargs: ``env_id`` (instead of ``target``), the settings of
            :class:`~openenv_gym.client.settings.ClientSettings`, and the environment's own arguments.

    Raises:
        ConfigError: An argument is wrong.
        OpenEnvError: There is no session to be had; the class says why.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"]}  # noqa: RUF012 - Gymnasium's own form

    _truncate: bool = False
    _last: Any = None
    #: Whether a step has to do more than to return.
    _watching: bool = False
    _stopwatch: Stopwatch | None = None
    _times: StepTimes | None = None
    _spec: EnvSpec | None = None
    _spaces: tuple[gym.Space[Any], gym.Space[Any]] | None = None

    def __init__(
        self,
        target: str | None = None,
        render_mode: str | None = None,
        *,
        time_limit: bool = True,
        **kwargs: Any,
    ) -> None:
        self._episode = Episode()
        target = take_target(target, time_limit, kwargs)
        settings = take_settings(kwargs)
        self._opener = Opener(
            settings,
            target,
            time_limit=time_limit,
            render_mode=render_mode,
            client=f"openenv_gym/{__version__}",
            json=True,
        )
        self._truncate = settings.on_error == "truncate"
        self._stopwatch = Stopwatch() if settings.timing else None
        self._open(patient=False)

    # -- the environment

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the episode; returns what the environment returned.

        Raises:
            InvalidActionError: The action is not in the action space; nothing was sent.
            ResetNeededError: There is no episode; :class:`~openenv_gym.errors.InterruptedStepError` after an
                interrupt.
            RemoteEnvironmentError: The environment raised.
            SessionLostError, ServerConnectionError: The episode is lost (unless ``on_error="truncate"``).
        """
        connection, episode, done = self._connection, self._episode, False
        if connection is None:
            self._refuse()
        try:
            with connection.lock:
                if not episode.live:
                    self._refuse()
                column = self._encode_action(action, "action")
                episode.live = False
                try:
                    reply = connection.request(Step, column)
                except BaseException as exc:
                    return self._step_failed(exc)
                try:
                    observation = self._decode_observation(reply.observations)
                    rewards, infos = reply.rewards, reply.infos
                    reward = _DOUBLE(rewards)[0] if type(rewards) is bytes else rewards[0]
                    terminated, truncated = _FLAGS[reply.flags[0]]
                    info = infos[0] if infos is not None else {}
                except (RemoteProtocolError, LookupError, TypeError, struct.error) as exc:
                    raise self._malformed(exc) from exc
                if reply.warnings:
                    _warn(reply.warnings)
                if self._watching:
                    self._keep_up(observation, reply.timing)
                done = episode.live = True
            return observation, reward, terminated, truncated, info
        except BaseException:
            if done:  # an interrupt at the very end: nobody gets the result
                episode.live = False
            raise

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode, in a new session if the old one is lost.

        Args:
            seed: Passed to the environment as it is.
            options: Passed to the environment as they are.

        Returns:
            Observation and info, as the environment returned them.

        Raises:
            ValueNotCarriedError: ``options`` hold something that has no form on the wire.
            OpenEnvError: There is no session to be had, or it was lost meanwhile; another call may succeed.
        """
        super().reset(seed=seed)
        seeds = None if seed is None else [pack(seed, "seed")]
        packed = pack(options, "options")
        connection, episode = self._standing(), self._episode
        episode.live, episode.obstacle = False, INTERRUPTED[Reset]
        try:
            reply = connection.request(Reset, seeds, packed)
        except BaseException as exc:
            self._failed(exc, False, RESET_FAILED)
            raise
        finally:
            self._forward()
        try:
            observation = self._decode_observation(reply.observations)
            info = reply.infos[0] if reply.infos is not None else {}
        except (RemoteProtocolError, LookupError, TypeError) as exc:
            raise self._malformed(exc) from exc
        self._last = observation if self._truncate else None
        self._watching = self._truncate or self._stopwatch is not None or _PRINTED.isEnabledFor(logging.INFO)
        if self._stopwatch is not None:
            self._stopwatch.take()
        if reply.warnings:
            _warn(reply.warnings)
        episode.live, episode.obstacle = True, INTERRUPTED[Step]
        return observation, info

    def render(self) -> Any:
        """Return what the environment's ``render`` returns: an ``(h, w, 3)`` uint8 array, a str ..."""
        frame = self._ask(Render).frames[0]
        if self.render_mode is None:
            gym.logger.warn(
                "render() without a render_mode; pass one to gym.make, such as render_mode='rgb_array'"
            )
        return frame

    def close(self) -> None:
        """Close the environment and end the session. Further calls do nothing."""
        if self._closed:
            return
        connection, self._connection, episode = self._connection, None, self._episode
        self._closed = True
        episode.live, episode.obstacle = False, (EnvClosedError, "the env is closed; make a new one")
        if connection is not None:
            connection.close()
        self._forward()

    @property
    def step_times(self) -> StepTimes | None:
        """How long the parts of the last step took; ``None``: there was none, or the server does not say.

        Raises:
            ConfigError: The env was made without ``timing=True``.
        """
        if self._stopwatch is None:
            raise ConfigError(
                "times are not taken; make the env with timing=True: gym.make(..., timing=True)"
            )
        return self._times

    @property
    def spec(self) -> EnvSpec | None:
        """The registration this env was made from, without secrets; ``gym.make(env.spec)`` works here."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        if spec is not None:
            spec = copy.copy(spec)
            spec.kwargs = redact(spec.kwargs)
        self._spec = spec

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise NotCopyableError(
            "a live env cannot be pickled or deep-copied; make another with gym.make(env.spec), or pass a"
            " function that makes it: lambda: gym.make(...)"
        )

    def __del__(self) -> None:
        connection = self._connection
        if connection is None or connection.over or sys.is_finalizing():
            return
        connection.discard()
        warnings.warn(f"an env on {self.base_url} was not closed; call close()", ResourceWarning, 2, self)

    # -- inside

    def _adopt(self, connection: Connection | ForeignConnection) -> None:
        """Take over what the server says of the environment."""
        welcome = connection.welcome
        spaces = translation(connection)
        if self._spaces is not None:
            if spaces[:2] != self._spaces:
                raise EnvironmentMismatchError(
                    f"{self.base_url} hosts an environment with other spaces than before; make a new env",
                    server=self.base_url,
                )
            return
        self._spaces = self.observation_space, self.action_space = spaces[:2]
        self._decode_observation, self._encode_action = spaces[2:]
        if self._stopwatch is not None:
            self._decode_observation = self._stopwatch.timed(self._decode_observation)
            self._encode_action = self._stopwatch.timed(self._encode_action)
        metadata = welcome.metadata
        self.metadata = dict(metadata) if isinstance(metadata, dict) else {}
        self.metadata.setdefault("render_modes", [])
        self.render_mode = welcome.render_mode

    def _step_failed(self, exc: BaseException) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Raise ``exc``, or return the truncated transition that stands for it."""
        self._times = None
        self._failed(exc, True, INTERRUPTED[Step])
        if not self._truncate or not isinstance(exc, SessionLostError | ServerConnectionError):
            raise exc
        _LOG.warning("%s: the episode is truncated: %s", self.base_url, exc.message)
        facts = {"error": str(exc.code), "message": exc.message, "server": exc.server}
        return copy.deepcopy(self._last), 0.0, False, True, {"openenv": facts}

    def _keep_up(self, observation: Any, timing: list[int] | None) -> None:
        if self._truncate:
            self._last = observation
        if self._stopwatch is not None:
            try:
                self._times = None if timing is None else self._stopwatch.times(timing)
            except ValueError as exc:
                raise self._malformed(exc) from exc
        if _PRINTED.isEnabledFor(logging.INFO):
            self._forward()


def _warn(texts: list[str]) -> None:
    for text in texts:
        warnings.warn(text, UserWarning, stacklevel=3)
