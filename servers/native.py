"""An environment's own vector class as a stage: whole batches go in and out, lane by lane nothing is done."""

from __future__ import annotations

import copy
import inspect
import math
import types
from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.spaces.utils import is_space_dtype_shape_equiv
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, create_empty_array

from openenv_gym.errors import (
    ConfigError,
    ConstructionError,
    RemoteProtocolError,
    ResetNeededError,
    ValueNotCarriedError,
)
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import LARGE
from openenv_gym.protocol.columns import column_codec
from openenv_gym.protocol.specs import to_spec
from openenv_gym.protocol.values import pack

from . import modules
from .access import Access, release
from .targets import Target

__all__ = ["Native", "build_native", "native_facts", "single_lane"]

_MODES = {
    "disabled": AutoresetMode.DISABLED,
    "next_step": AutoresetMode.NEXT_STEP,
    "same_step": AutoresetMode.SAME_STEP,
}
_MASK = "reset_mask"
_DOUBLE = np.dtype("<f8")


class Native(Access):
    """Answers the requests of a session whose lanes are one vector environment.

    Args:
        env: The vector environment; closed by :meth:`close`.
        attributes: Whether clients may reach its attributes and methods.
        timed: Whether replies say how long steps took.

    Every method is called on the session's thread, and raises what the environment raises.
    """

    def __init__(self, env: Any, *, attributes: bool = True, timed: bool = False) -> None:
        super().__init__(env, attributes=attributes)
        self.env: Any
        self._lanes: int = env.num_envs
        self._actions = column_codec(env.single_action_space, actions=True)
        self._observations = column_codec(env.single_observation_space)
        self._large = _size_of(env.single_observation_space) * env.num_envs >= LARGE
        self._timed = timed
        self._episodes = False
        self._warnings: list[str] = []
        self._warned: set[str] = set()

    def answer(self, request: Any) -> m.Reply:
        """Carry out ``request``."""
        answer = _ANSWERS.get(type(request))
        if answer is None:
            raise RemoteProtocolError(f"this environment has no '{type(request).__struct_config__.tag}'")
        return answer(self, request)

    def reset(self, request: m.Reset) -> m.Observation:
        """Begin episodes."""
        if request.seeds is not None and len(request.seeds) != 1:
            raise RemoteProtocolError("'reset' has more than one seed; native lanes get one value as it is")
        options = request.options
        if request.mask is not None:
            options = {**(options or {}), _MASK: self._mask(request.mask)}
        seed = request.seeds[0] if request.seeds else None
        observations, info = self.env.reset(seed=seed, options=options)
        self._episodes = True
        reply = m.Observation(request.id, self._column(observations), warnings=self._take_warnings())
        reply.batch_info = pack(info, "info", opaque=True) if info else None
        return reply

    def step(self, request: m.Step) -> m.Transition:
        """Step all lanes."""
        if not self._episodes:
            raise ResetNeededError("there are no episodes; call reset() before step()")
        if request.lanes is not None or request.wait is not None or request.patience is not None:
            raise RemoteProtocolError("'step' names lanes; native lanes are stepped together")
        if self._timed:
            return self._timed_step(request)
        return self._reply(request, self.env.step(self._batch(request.actions)))

    def close(self) -> None:
        """Close the environment and let go of it."""
        release([self])

    def _attribute(self, name: str) -> Any:
        self._check_name(name)
        return getattr(self.env, name)

    def _mask(self, mask: bytes) -> np.ndarray[Any, Any]:
        if len(mask) != self._lanes or not set(mask) <= {0, 1}:
            raise RemoteProtocolError(f"the mask of 'reset' must be {self._lanes} bytes, each 0 or 1")
        if not _mentions(type(self.env.unwrapped).reset, _MASK):
            raise ConfigError(
                f"{type(self.env.unwrapped).__qualname__} resets all its lanes together: its reset() does not"
                f" know options[{_MASK!r}]; leave the mask out, or lanes='native'"
            )
        return np.frombuffer(mask, np.bool_).copy()

    def _timed_step(self, request: m.Step) -> m.Transition:
        entered = perf_counter_ns()
        actions = self._batch(request.actions)
        began = perf_counter_ns()
        outcome = self.env.step(actions)
        ended = perf_counter_ns()
        reply = self._reply(request, outcome)
        reply.timing = [began - entered + perf_counter_ns() - ended, 0, ended - began]
        return reply

    def _batch(self, column: Any) -> Any:
        """Return actions as the environment takes them."""
        batch = self._actions.decode_batch(column, self._lanes)
        if batch is None:
            batch = create_empty_array(self.env.single_action_space, self._lanes)
            batch = self._actions.decode_into(column, self._lanes, batch)
        return batch

    def _reply(self, request: m.Step, outcome: Any) -> m.Transition:
        observations, rewards, terminated, truncated, info = outcome
        column, flags = self._column(observations), self._flags(terminated, truncated)
        reply = m.Transition(request.id, column, self._rewards(rewards), flags)
        if info:
            reply.batch_info = pack(info, "info", opaque=True)
        if self._warnings:
            reply.warnings = self._take_warnings()
        return reply

    def _column(self, observations: Any) -> Any:
        """Return observations as they travel.

        A large array is sent from where it is: the environment may use its memory again in the next request,
        and until then only is the reply kept.
        """
        view = self._observations.view_batch(observations, self._lanes) if self._large else None
        if view is not None:
            return view
        return self._observations.encode_batch(observations, self._lanes, "obs", self._warn)

    def _rewards(self, rewards: Any) -> Any:
        if type(rewards) is np.ndarray and rewards.dtype == _DOUBLE and rewards.shape == (self._lanes,):
            return rewards.tobytes()
        return [pack(rewards, "rewards")]

    def _flags(self, terminated: Any, truncated: Any) -> bytes:
        """Return a byte a lane: 1 terminated, 2 truncated."""
        ends: bytes = self._bools(terminated, "terminated").tobytes()
        cuts: bytes = self._bools(truncated, "truncated").tobytes()
        if 1 not in cuts:
            return ends
        return (np.frombuffer(ends, np.uint8) + 2 * np.frombuffer(cuts, np.uint8)).tobytes()

    def _bools(self, values: Any, name: str) -> np.ndarray[Any, Any]:
        array = np.asarray(values)
        if array.shape != (self._lanes,):
            raise ValueNotCarriedError(
                f"{name} has the shape {array.shape}; one bool a lane was due, of {self._lanes}", path=name
            )
        if array.dtype != np.bool_:
            self._warn(f"{name} is an array of {array.dtype}, not of bools; it arrives as {name} != 0")
            array = array.astype(np.bool_)
        return array

    def _warn(self, text: str) -> None:
        if text not in self._warned and len(self._warned) < 64:
            self._warned.add(text)
            self._warnings.append(text)

    def _take_warnings(self) -> list[str]:
        taken, self._warnings = self._warnings, []
        return taken


_ANSWERS: dict[type, Callable[[Native, Any], m.Reply]] = {
    m.Step: Native.step,
    m.Reset: Native.reset,
    m.Render: Native.render,
    m.Get: Native.get,
    m.Set: Native.set,
    m.Call: Native.call,
}


def _size_of(space: gym.Space[Any]) -> int:
    """Return how many bytes an array of a space has; 0: its values are no arrays of one size."""
    if space.shape is None or space.dtype is None:
        return 0
    return math.prod(space.shape) * space.dtype.itemsize


def _mentions(function: Any, text: str) -> bool:
    """Return whether a function of Python, or a function in it, has ``text`` among its constants.

    There is no other way to tell whether a vector class knows an option: those that do not, ignore it.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    found = [code] if code is not None else []
    while found:
        constants = found.pop().co_consts
        if text in (item for item in constants if isinstance(item, str)):
            return True
        found += [item for item in constants if isinstance(item, types.CodeType)]
    return False


def build_native(target: Target, hello: m.Hello, kwargs: Mapping[str, Any]) -> VectorEnv[Any, Any, Any]:
    """Build the vector environment that ``hello`` asks for.

    Args:
        target: What is served.
        hello: What the client asks for.
        kwargs: Arguments of the vector class.

    Raises:
        ConfigError: There is no vector class, or it lacks what is asked of it.
        ConstructionError: Something else was built.
    """
    env = _build(target, hello, kwargs)
    try:
        _check(env, target.name, hello)
    except BaseException:
        env.close()
        raise
    return env


def _build(target: Target, hello: m.Hello, kwargs: Mapping[str, Any]) -> VectorEnv[Any, Any, Any]:
    source = target.source()
    creator = _creator(source, target.name)
    arguments = dict(kwargs)
    if hello.render_mode is not None:
        arguments["render_mode"] = hello.render_mode
    if hello.limits.episode:
        arguments["max_episode_steps"] = hello.limits.episode
    for name in ("render_mode", "max_episode_steps"):
        if name in arguments and not modules.accepts(creator, name):
            raise ConfigError(f"the vector class of {target.name!r} has no argument {name}; leave it out")
    if hello.autoreset in _MODES and modules.names(creator, "autoreset_mode"):
        arguments.setdefault("autoreset_mode", _MODES[hello.autoreset])
    env: Any
    if isinstance(source, EnvSpec):
        spec = copy.deepcopy(source)
        if not hello.time_limit:
            spec.max_episode_steps = None
        spec.kwargs.update(arguments)
        env = gym.make_vec(spec, num_envs=hello.lanes, vectorization_mode="vector_entry_point")
    else:
        env = creator(num_envs=hello.lanes, **arguments)
    if not isinstance(env, VectorEnv):
        raise ConstructionError(
            f"{target.text!r} built a {type(env).__qualname__}, not a gymnasium.vector.VectorEnv; leave"
            " lanes='native' out",
            type=type(env).__qualname__,
        )
    return env


def _creator(source: Any, name: str) -> Any:
    if not isinstance(source, EnvSpec):
        if inspect.isclass(source) and not issubclass(source, VectorEnv):
            raise ConfigError(f"{name!r} is no vector environment; leave lanes='native' out")
        return source
    entry_point = source.vector_entry_point
    if entry_point is None:
        raise ConfigError(f"{name!r} has no vector_entry_point; leave lanes='native' out")
    return load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point


def _check(env: VectorEnv[Any, Any, Any], name: str, hello: m.Hello) -> None:
    """Refuse a vector environment that is not what the client takes it for."""
    if env.num_envs != hello.lanes:
        raise ConfigError(f"{name!r} has {env.num_envs} lanes, {hello.lanes} were asked for")
    for part in ("observation_space", "action_space"):
        batch, due = getattr(env, part), batch_space(getattr(env, f"single_{part}"), hello.lanes)
        if batch != due and not is_space_dtype_shape_equiv(batch, due):
            raise ConfigError(f"{name!r} has the batched {part} {batch}; {due} was due")
    mode = _mode(env)
    if hello.autoreset in _MODES and mode is not _MODES[hello.autoreset]:
        says = (
            f"its lanes are reset by the mode {mode.value}" if mode else "it does not say its autoreset mode"
        )
        raise ConfigError(
            f"{name!r} served natively: {says}, {_MODES[hello.autoreset].value} was asked for, and it has no"
            " argument autoreset_mode; ask for its own mode",
            autoreset_mode=mode.value if mode else None,
        )


def _mode(env: VectorEnv[Any, Any, Any]) -> AutoresetMode | None:
    """Return the mode of this object; metadata may be those of the class, which a later object changed."""
    for value in (getattr(env, "autoreset_mode", None), env.metadata.get("autoreset_mode")):
        if isinstance(value, AutoresetMode):
            return value
    return None


def native_facts(env: VectorEnv[Any, Any, Any], target: Target) -> dict[str, Any]:
    """Return what ``welcome`` says of a vector environment, packed."""
    mode = _mode(env)
    metadata = dict(env.metadata or {})
    if mode is not None:
        metadata["autoreset_mode"] = mode
    return {
        "target": target.name,
        "observation_space": to_spec(env.single_observation_space, "single_observation_space"),
        "action_space": to_spec(env.single_action_space, "single_action_space"),
        "metadata": pack(metadata, "metadata", opaque=True),
        "render_mode": env.render_mode,
        "spec": pack(target.spec(), "spec", opaque=True),
    }


def single_lane(env: VectorEnv[Any, Any, Any], target: Target) -> gym.Env[Any, Any]:
    """Return what a single environment of the kind looks like from outside; it cannot be stepped."""
    lane: gym.Env[Any, Any] = type(target.name, (gym.Env,), {"__doc__": target.doc()})()
    lane.observation_space, lane.action_space = env.single_observation_space, env.single_action_space
    lane.metadata = dict(target.metadata())
    return lane
