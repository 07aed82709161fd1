"""Many lanes of a remote environment as one ``gymnasium.vector.VectorEnv``."""

from __future__ import annotations

import copy as copying
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ClosedEnvironmentError, NoAsyncCallError
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from openenv_gym import spaces as spaces  # its import makes our own spaces known to the wire
from openenv_gym.client.deadline import deadline_in
from openenv_gym.client.opening import take_target
from openenv_gym.client.secrets import redact
from openenv_gym.client.sync import CLOSE_TIMEOUT
from openenv_gym.errors import ConfigError, NotCopyableError, ResetNeededError
from openenv_gym.protocol.messages import Welcome
from openenv_gym.protocol.specs import from_spec

from .arguments import Arguments, autoreset_of, take_arguments
from .asking import ask_all
from .attributes import LaneAttributes
from .calls import Calls
from .failures import describe_lanes
from .first_ready import FirstReady
from .fleet import Fleet, openers_of
from .masks import seeds_of, take_mask
from .ready import Ready
from .recovery import Recovery
from .stepper import Stepper
from .times import LaneTimes, LaneWatch

__all__ = ["RemoteVectorEnv"]

_Step = tuple[Any, Any, Any, Any, dict[str, Any]]


class RemoteVectorEnv(FirstReady, LaneAttributes, gym.vector.VectorEnv[Any, Any, Any]):
    """Copies of an environment that run in environment servers and are stepped together.

    Made by ``gym.make_vec`` for every id of this package. Results are those of
    ``gymnasium.vector.SyncVectorEnv`` over the same environments, bit for bit, infos and masks included.

    A lane that fails does not take others with it: the environment raises; the worker that a session of lanes
    shares dies or misses a deadline; a server dies. With ``on_error="raise"`` a
    :class:`~openenv_gym.errors.VectorEnvError` then names the lanes that failed and has the results of the
    others; the environment stays open, and ``reset(options={"reset_mask": error.mask})`` goes on. With
    ``on_error="truncate"`` the episodes of a lost session end as truncated, with ``info["openenv"]`` as for a
    single environment, and new ones begin in a new session as the autoreset mode says. What the environment
    itself raises is always raised.

    Args:
        target: What the servers host, as ``python -m openenv_gym.serve`` takes it; ``None``: anything.
        render_mode: The environment's render mode.
        num_envs: Number of lanes.
        time_limit: Whether the environment keeps the time limit of its registration.
        max_episode_steps: After how many steps an episode is truncated; ``None``: as ``time_limit`` says.
        copy: Whether each call returns a batch of its own; without, the next call overwrites it.
        autoreset_mode: Member, value or name of ``AutoresetMode``; ``None``: ``NEXT_STEP``, and with
            ``lanes="native"`` that of the class.
        servers: How many servers to start here; the lanes are spread over them.
        lanes: ``"native"``: the lanes are the environment's own vector class, one on each server.
        lanes_per_worker: Most lanes in one session; ``None``: a session for each worker of a server.
        lane_threads: On how many threads each session runs its lanes; ``None``: as the server finds best.
        max_restarts: ``on_error="truncate"``: how often in a row the lanes of a session are started again
            before the loss is raised; ``None``: without limit.
        disable_env_checker: Taken for ``gym.make_vec`` and of no effect: the spaces are checked on the wire.
        kwargs: ``env_id`` (instead of ``target``); ``base_url``, one address or a list of them; the other
            settings of :class:`~openenv_gym.client.settings.ClientSettings`; the environment's own arguments.
            ``env_kwargs`` may be a list of dicts, one a lane.

    Raises:
        ConfigError: An argument is wrong; nothing was started.
        CapacityError: The servers have too few slots; nothing was built.
        OpenEnvError: There are no sessions to be had; the class says why.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"]}  # noqa: RUF012 - Gymnasium's own form

    _fleet: Fleet | None = None
    _watch: LaneWatch | None = None
    _spec: EnvSpec | None = None

    def __init__(
        self,
        target: str | None = None,
        render_mode: str | None = None,
        *,
        num_envs: int = 1,
        time_limit: bool = True,
        max_episode_steps: int | None = None,
        copy: bool = True,
        autoreset_mode: AutoresetMode | str | None = None,
        servers: int | None = None,
        lanes: str | None = None,
        lanes_per_worker: int | None = None,
        lane_threads: int | None = None,
        max_restarts: int | None = 10,
        disable_env_checker: bool | None = None,
        **kwargs: Any,
    ) -> None:
        target = take_target(target, time_limit, kwargs)
        if not isinstance(copy, bool):
            raise ConfigError(f"copy is {copy!r}; write True, or False to have batches overwritten")
        arguments = take_arguments(
            kwargs,
            num_envs=num_envs,
            servers=servers,
            lanes=lanes,
            lanes_per_worker=lanes_per_worker,
            lane_threads=lane_threads,
            autoreset_mode=autoreset_mode,
            max_episode_steps=max_episode_steps,
            max_restarts=max_restarts,
        )
        self.num_envs = arguments.num_envs
        self.copy = copy
        fleet = Fleet(openers_of(arguments, target, time_limit, render_mode), arguments)
        try:
            self._adopt(fleet.welcome, arguments)
            single = self.single_observation_space, self.single_action_space
            recovery = Recovery(
                truncates=arguments.servers[0].on_error == "truncate",
                mode=self.autoreset_mode,
                most=arguments.max_restarts,
            )
            self._stepper = Stepper(
                fleet,
                single,
                recovery,
                copy=copy,
                manual=self.autoreset_mode is AutoresetMode.DISABLED,
                native=arguments.native,
            )
            if arguments.servers[0].timing:
                self._watch = LaneWatch(arguments.num_envs)
                self._watch.attach(self._stepper)
            self._ready = Ready(self._stepper, arguments.num_envs)
            self._calls = Calls(self._stepper.interrupted, self._ready.forget)
        except BaseException:
            fleet.close()
            raise
        self._fleet = fleet

    # -- stepping

    def step(self, actions: Any) -> _Step:
        """Step all lanes.

        Args:
            actions: A batch of :attr:`action_space`. What it says of a lane that begins a new episode in this
                step (``NEXT_STEP``) is ignored.

        Returns:
            Observations, a batch of :attr:`observation_space`; rewards, float64; terminated and truncated,
            bools, these three of shape ``(num_envs,)``; infos, a dict of arrays with masks.

        Raises:
            InvalidActionError: The actions are not in the action space; nothing was sent.
            ResetNeededError: Lanes have no episode; nothing was sent.
            VectorEnvError: Lanes failed; it has the results of the others.
        """
        self._check_step("step")
        result: _Step = self._calls.run("step", self._step, actions)
        return result

    def step_async(self, actions: Any) -> None:
        """Send the actions; :meth:`step_wait` returns what comes of them. Errors as for :meth:`step`.

        Raises:
            AlreadyPendingCallError: Another call was sent and not waited for.
            ClosedEnvironmentError: The environment is closed.
        """
        self._check_step("step_async")
        self._calls.post("step", self._stepper.post_step, actions)

    def step_wait(self, timeout: float | None = None) -> _Step:
        """Return what :meth:`step` returns.

        Args:
            timeout: Seconds to wait; ``None``: as long as it takes.

        Raises:
            NoAsyncCallError: There was no :meth:`step_async`.
            multiprocessing.TimeoutError: Not all is there yet; the call goes on, and may be waited for again.
        """
        self._check_wait("step")
        result: _Step = self._calls.collect(self._stepper.collect_step, timeout)
        return result

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin episodes, in new sessions where the old ones are lost.

        Args:
            seed: An int, of which lane ``i`` gets ``seed + i``; or a sequence with an int or ``None`` a lane.
            options: Passed to the environments, without ``"reset_mask"``: a bool array of shape
                ``(num_envs,)`` that is true for the lanes to reset. The others keep their last observation
                and contribute no info.

        Returns:
            Observations, a batch of :attr:`observation_space`, and infos.

        Raises:
            ValueNotCarriedError: ``options`` hold something that has no form on the wire.
            VectorEnvError: Lanes failed; it has the results of the others.
        """
        seeds, rest, mask = self._reset_arguments("reset", seed, options)
        result: tuple[Any, dict[str, Any]] = self._calls.run("reset", self._reset, seeds, rest, mask)
        return result

    def reset_async(self, seed: Any = None, options: dict[str, Any] | None = None) -> None:
        """Ask for a reset; :meth:`reset_wait` returns what comes of it. Errors as for :meth:`step_async`."""
        seeds, rest, mask = self._reset_arguments("reset_async", seed, options)
        self._calls.post("reset", self._post_reset, seeds, rest, mask)

    def reset_wait(self, timeout: float | None = None) -> tuple[Any, dict[str, Any]]:
        """Return what :meth:`reset` returns; ``timeout`` and errors as for :meth:`step_wait`."""
        self._check_wait("reset")
        result: tuple[Any, dict[str, Any]] = self._calls.collect(self._stepper.collect_reset, timeout)
        return result

    # -- the rest of what Gymnasium asks for

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """End all sessions; what runs is waited for, some seconds at most.

        Args:
            timeout: How many seconds at most; ``None``: 10.
            terminate: Whether to wait for nothing.
        """
        fleet, self._fleet = self._fleet, None
        if fleet is None:
            return
        if terminate:
            fleet.discard()
        else:
            fleet.close(deadline_in(CLOSE_TIMEOUT if timeout is None else timeout))

    def take_step_times(self) -> LaneTimes:
        """Return how long the parts of the steps since the last call took.

        Raises:
            ConfigError: The environment was made without ``timing=True``.
        """
        if self._watch is None:
            raise ConfigError("times are not taken; make the environment with timing=True")
        return self._watch.take()

    @property
    def base_url(self) -> list[str]:
        """The addresses of the servers, without secrets, in the order of their lanes."""
        parts = self._fleet.parts if self._fleet is not None else []
        return list(dict.fromkeys(part.server for part in parts))

    @property
    def spec(self) -> EnvSpec | None:
        """The registration and the arguments this was made from, without secrets; JSON can hold it."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        if spec is not None:
            spec = copying.copy(spec)
            spec.kwargs = redact(spec.kwargs)
            if isinstance(mode := spec.kwargs.get("autoreset_mode"), AutoresetMode):
                spec.kwargs["autoreset_mode"] = mode.value
        self._spec = spec

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise NotCopyableError(
            "a live environment cannot be pickled or deep-copied; make another with gym.make_vec(envs.spec)"
        )

    def __del__(self) -> None:
        fleet = self._fleet
        if fleet is None or sys.is_finalizing() or not fleet.discard():
            return
        warnings.warn(
            f"a vector environment on {', '.join(self.base_url)} was not closed; call close()",
            ResourceWarning,
            2,
            self,
        )

    # -- inside

    def _adopt(self, welcome: Welcome, arguments: Arguments) -> None:
        """Take over what the first session says of the environment."""
        n = arguments.num_envs
        self.native = arguments.native
        self.single_observation_space = from_spec(welcome.observation_space)
        self.single_action_space = from_spec(welcome.action_space)
        self.observation_space = batch_space(self.single_observation_space, n)
        self.action_space = batch_space(self.single_action_space, n)
        self.metadata = dict(welcome.metadata) if isinstance(welcome.metadata, dict) else {}
        self.metadata.setdefault("render_modes", [])
        self.autoreset_mode = arguments.autoreset
        if self.autoreset_mode is None:
            self.autoreset_mode = autoreset_of(self.metadata.get("autoreset_mode"), native=True)
        if self.autoreset_mode is not None:
            self.metadata["autoreset_mode"] = self.autoreset_mode
        self.render_mode = welcome.render_mode

    def _step(self, actions: Any) -> _Step:
        self._stepper.post_step(actions)
        return self._stepper.collect_step(None)

    def _reset(
        self, seeds: Any, options: Any, mask: np.ndarray[Any, Any] | None
    ) -> tuple[Any, dict[str, Any]]:
        self._post_reset(seeds, options, mask)
        return self._stepper.collect_reset(None)

    def _post_reset(self, seeds: Any, options: Any, mask: np.ndarray[Any, Any] | None) -> None:
        self._ready.settle()
        self._stepper.post_reset(seeds, options, mask)
        self._calls.interrupted = False

    def _reset_arguments(
        self, call: str, seed: Any, options: dict[str, Any] | None
    ) -> tuple[Any, dict[str, Any] | None, np.ndarray[Any, Any] | None]:
        """Check that a reset may begin; return seeds, options and mask."""
        self._check_open(call)
        self._calls.prepare_reset()
        seeds = seeds_of(seed, self.num_envs)
        rest, mask = take_mask(options, self.num_envs)
        if mask is not None and (never := self._stepper.never_seen(~mask)):
            raise ResetNeededError(
                f"there was no episode yet in {describe_lanes(never)}; reset without a mask first",
                lanes=never,
            )
        if isinstance(seeds, range):
            super().reset(seed=seeds[0])
        self._check_received(call, mask)
        return seeds, rest, mask

    def _ask(
        self, kind: type, arguments: Callable[[Any], Sequence[Any] | None], take: Callable[[list[Any]], Any]
    ) -> Any:
        call = kind.__name__.lower()
        self._check_free(call)
        self._check_received(call)
        return self._calls.run(call, self._asked_all, kind, arguments, take)

    def _asked_all(self, kind: type, arguments: Any, take: Callable[[list[Any]], Any]) -> Any:
        self._ready.settle()
        return take(ask_all(self._stepper.fleet, kind, arguments))

    def _check_open(self, call: str) -> None:
        if self.closed or self._fleet is None:
            raise ClosedEnvironmentError(f"{call}() came after close(); make a new environment")
        self._calls.check(call)

    def _check_free(self, call: str) -> None:
        """Check that a call may begin."""
        self._check_open(call)
        self._calls.check_known()

    def _check_step(self, call: str) -> None:
        self._check_free(call)
        self._check_received(call)
        if 1 in self._stepper.unready_bytes:
            self._refuse_step()

    def _check_wait(self, name: str) -> None:
        if self.closed:
            self._check_open(f"{name}_wait")
        if self._calls.pending != name:
            raise NoAsyncCallError(f"call {name}_async() before {name}_wait()", name)

    def _refuse_step(self) -> NoReturn:
        lanes = np.flatnonzero(self._stepper.unready).tolist()
        if len(lanes) == self.num_envs:
            raise ResetNeededError("there is no episode; call reset() first", lanes=lanes)
        raise ResetNeededError(
            f"there is no episode to step in {describe_lanes(lanes)} (it ended or failed); reset there:"
            " reset(options={'reset_mask': mask}) leaves the others alone. Nothing was sent.",
            lanes=lanes,
        )
