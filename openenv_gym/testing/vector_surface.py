"""Rules about what a vector environment is, before and after it does anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

from .vector_case import Case, Mode, NotCheckedError, dispose
from .vector_rules import rule

__all__ = ["RULES"]

_SPACES = ("single_observation_space", "single_action_space", "observation_space", "action_space")


@rule(
    "The env is a VectorEnv with num_envs, four spaces, an assignable spec, random numbers, and is open.",
    remedy="set what is named in the constructor",
    rolls=False,
)
def _attributes(case: Case) -> Iterator[str]:
    """Look at everything but batching and metadata."""
    envs = case.envs
    if not isinstance(envs.num_envs, int) or envs.num_envs < 1:
        yield f"num_envs is {envs.num_envs!r}, not an int of at least 1"
    for name in _SPACES:
        if not isinstance(getattr(envs, name, None), gym.Space):
            yield f"{name} is {getattr(envs, name, None)!r}, not a Space"
    if envs.closed is not False:
        yield f"closed is {envs.closed!r} while it is open, not False"
    base: Any = envs.unwrapped
    if not isinstance(base, VectorEnv):
        yield f"unwrapped is a {type(base).__name__}, not a VectorEnv"
    for name in ("np_random", "np_random_seed"):
        if getattr(envs, name, None) is None:
            yield f"{name} is None"
    # gym.make_vec assigns it.
    envs.unwrapped.spec = envs.unwrapped.spec


@rule(
    "The batched spaces are batch_space() of the single ones.",
    remedy="make them with gymnasium.vector.utils.batch_space(single_space, num_envs)",
    rolls=False,
)
def _batching(case: Case) -> Iterator[str]:
    """Compare both pairs of spaces."""
    for kind in ("observation", "action"):
        single = getattr(case.envs, f"single_{kind}_space")
        batched = getattr(case.envs, f"{kind}_space")
        expected = batch_space(single, case.n)
        differing = getattr(case.envs.unwrapped, "observation_mode", "same") != "same"
        if batched != expected and not (differing and kind == "observation"):
            yield f"{kind}_space is {batched!r}, not {expected!r}"


@rule(
    "metadata names the autoreset mode, by an AutoresetMode, and the render modes.",
    remedy="self.metadata = {**metadata, 'autoreset_mode': AutoresetMode...., 'render_modes': [...]}",
    rolls=False,
)
def _metadata(case: Case) -> Iterator[str]:
    """Look at metadata and render mode."""
    envs = case.envs
    mode = envs.metadata.get("autoreset_mode")
    if not isinstance(mode, Mode):
        yield f"metadata['autoreset_mode'] is {mode!r}, not a member of AutoresetMode"
    modes = envs.metadata.get("render_modes")
    if not isinstance(modes, list | tuple):
        yield f"metadata['render_modes'] is {modes!r}, not a list"
    elif envs.render_mode is not None and envs.render_mode not in modes:
        yield f"render_mode is {envs.render_mode!r}, which metadata['render_modes'] lacks"


@rule(
    "The autoreset mode is the one that was asked for.",
    remedy="take autoreset_mode, and refuse the modes that the env does not have",
    rolls=False,
)
def _asked_mode(case: Case) -> Iterator[str]:
    """Compare the mode with the one asked for."""
    if case.asked is None:
        raise NotCheckedError("the factory has no parameter autoreset_mode")
    if case.mode is not case.asked:
        yield f"{case.asked} was asked for; metadata['autoreset_mode'] is {case.mode}"


@rule(
    "metadata is the env's own: another env changes neither it nor that of a class.",
    remedy="copy it in the constructor: self.metadata = dict(...)",
    rolls=False,
)
def _own_metadata(case: Case) -> Iterator[str]:
    """Make an env of another mode."""
    if case.envs.unwrapped.metadata is VectorEnv.metadata:
        yield "it is VectorEnv.metadata itself, which all vector environments share"
        return
    if case.make_other is None:
        raise NotCheckedError("it takes an env of another mode; pass a factory with autoreset_mode")
    classes = [cls for cls in type(case.envs.unwrapped).__mro__ if "metadata" in vars(cls)]
    before, own = [dict(vars(cls)["metadata"]) for cls in classes], dict(case.envs.metadata)
    try:
        other = case.make_other()
    except Exception as exc:
        raise NotCheckedError(f"it takes an env of another mode, which is refused: {exc}") from exc
    dispose(other)
    for cls, old in zip(classes, before, strict=True):
        new = vars(cls)["metadata"]
        if new != old:
            yield f"the metadata of class {cls.__name__} are {new!r} afterwards, not {old!r}"
    if case.envs.metadata != own:
        yield f"the metadata of the first env are {case.envs.metadata!r} afterwards, not {own!r}"


@rule(
    "The lanes' attributes are a tuple with one item a lane.",
    remedy="get_attr(name) returns a tuple of num_envs items; set_attr refuses another number of values",
    rolls=False,
)
def _lane_attributes(case: Case) -> Iterator[str]:
    """Read and write attributes of the lanes, where the env can."""
    envs: Any = case.envs.unwrapped
    if not hasattr(envs, "get_attr") or not hasattr(envs, "set_attr"):
        raise NotCheckedError("the env has no get_attr and set_attr, which VectorEnv does not demand")
    found = envs.get_attr("render_mode")
    if not isinstance(found, tuple) or len(found) != case.n:
        yield f"get_attr('render_mode') returned {found!r}, not a tuple of {case.n}"
    try:
        envs.set_attr("an_attribute", [0] * (case.n + 1))
    except Exception:
        return
    yield f"set_attr(name, values) took {case.n + 1} values for {case.n} lanes"


@rule(
    "make_vec(EnvSpec.from_json(spec.to_json())) makes the same env.",
    remedy="take arguments that JSON can hold, and let make_vec set spec",
    rolls=False,
)
def _spec_round_trip(case: Case) -> Iterator[str]:
    """Make another env from the spec."""
    spec: Any = case.envs.spec
    if spec is None:
        raise NotCheckedError("the env has no spec; make it with gym.make_vec")
    if not isinstance(spec, EnvSpec):
        yield f"spec is a {type(spec).__name__}, not an EnvSpec"
        return
    again = gym.make_vec(EnvSpec.from_json(spec.to_json()))
    try:
        for name in ("num_envs", "observation_space", "action_space", "render_mode"):
            ours, theirs = getattr(again, name), getattr(case.envs, name)
            if ours != theirs:
                yield f"{name} is {ours!r} afterwards, not {theirs!r}"
        mode = again.metadata.get("autoreset_mode")
        if mode != case.envs.metadata.get("autoreset_mode"):
            yield f"the autoreset mode is {mode} afterwards, not {case.mode}"
    finally:
        dispose(again)


@rule(
    "close() can be called twice, and sets closed.",
    remedy="do the work in close_extras(), which VectorEnv.close() calls once",
)
def _close(case: Case) -> Iterator[str]:
    """Close an env in mid-episode."""
    envs = case.fresh()
    try:
        envs.reset(seed=case.seed)
        envs.close()
        if envs.closed is not True:
            yield f"closed is {envs.closed!r} after close(), not True"
    finally:
        envs.close()


RULES = (
    _attributes,
    _batching,
    _metadata,
    _asked_mode,
    _own_metadata,
    _lane_attributes,
    _spec_round_trip,
    _close,
)
