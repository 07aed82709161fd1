"""A vector client without a connection: a stage's replies, encoded and decoded, in SyncVectorEnv's layout."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array

from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import decode_reply, decode_request, encode
from openenv_gym.protocol.columns import column_codec
from openenv_gym.protocol.specs import from_spec
from openenv_gym.servers.building import plan_of
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.stages import Desk, Stage
from openenv_gym.servers.targets import resolve

from .fakes import desk

__all__ = ["MODES", "Client", "hello", "opened", "sync"]

MODES = {
    "disabled": AutoresetMode.DISABLED,
    "next_step": AutoresetMode.NEXT_STEP,
    "same_step": AutoresetMode.SAME_STEP,
}


def hello(**fields: Any) -> m.Hello:
    """Return a greeting of a vector client."""
    return m.Hello(**{"session": "a" * 32, "token": b"t" * 16, "capabilities": ["lanes"], **fields})


def sync(target: str, lanes: int, mode: str, **kwargs: Any) -> Any:
    """Return the local counterpart."""
    make = [lambda: gym.make(target, disable_env_checker=True, **kwargs)] * lanes
    return SyncVectorEnv(make, autoreset_mode=MODES[mode])


def opened(target: str, *, at: Desk | None = None, threads: int | None = 1, **fields: Any) -> Client:
    """Return a client of a stage that was just built."""
    settings, greeting = ServerSettings(lane_threads=threads), hello(**fields)
    stage, facts = plan_of(settings, resolve(target)).build(greeting, at or desk())
    facts.pop("about", None)
    welcome = decode_reply(encode(m.Welcome(session=greeting.session, token=greeting.token, **facts)))
    return Client(stage, welcome, greeting.lanes)


class Client(VectorEnv[Any, Any, Any]):
    """Steps a stage.

    Attributes:
        stage: The stage.
        welcome: What it said of itself.
        failed: The failures in the last reply.
        last: The last reply.
    """

    def __init__(self, stage: Stage, welcome: Any, lanes: int) -> None:
        self.stage, self.welcome, self.num_envs = stage, welcome, lanes
        self.single_observation_space = from_spec(welcome.observation_space)
        self.single_action_space = from_spec(welcome.action_space)
        self._obs = column_codec(self.single_observation_space)
        self._act = column_codec(self.single_action_space, actions=True)
        self._values: dict[int, Any] = {}
        self._id = 0
        self.failed: list[m.LaneFailure] = []
        self.last: Any = None

    def ask(self, kind: Any, *args: Any, **fields: Any) -> Any:
        """Return the reply to a request; raises what the stage raises."""
        self._id += 1
        reply = self.stage.answer(decode_request(encode(kind(self._id, *args, **fields))))
        self.last = decode_reply(encode(reply))
        assert self.last.id == self._id
        self.failed = getattr(self.last, "failed", [])
        return self.last

    def lanes_of(self, reply: Any) -> list[int]:
        """Return the lanes of a reply."""
        if reply.lanes is None:
            return list(range(self.num_envs))
        return list(np.frombuffer(reply.lanes, "<u4").tolist()) if reply.lanes else []

    def reset(self, *, seed: Any = None, options: Any = None, mask: Any = None) -> Any:
        """Return batched observations and infos, as SyncVectorEnv's reset does."""
        seeds = [seed + lane for lane in range(self.num_envs)] if isinstance(seed, int) else seed
        reply = self.ask(m.Reset, seeds, options, None if mask is None else bytes(mask))
        lanes = self.lanes_of(reply)
        self._land(reply, lanes)
        infos: dict[str, Any] = {}
        for lane, info in zip(lanes, reply.infos or [{}] * len(lanes), strict=True):
            infos = self._add_info(infos, info, lane)
        return self._batch(), infos

    def step(self, actions: Any) -> Any:
        """Return what SyncVectorEnv's step does."""
        reply = self.ask(m.Step, self._act.encode_batch(actions, self.num_envs))
        lanes = self.lanes_of(reply)
        self._land(reply, lanes)
        ends = [at for at, flag in enumerate(reply.flags) if flag & 16]
        finals = dict(zip(ends, self._finals(reply, len(ends)), strict=True))
        infos: dict[str, Any] = {}
        for at, (lane, info) in enumerate(zip(lanes, reply.infos or [{}] * len(lanes), strict=True)):
            if at in finals:
                infos = self._add_info(infos, finals[at], lane)
            infos = self._add_info(infos, info, lane)
        flags = np.frombuffer(reply.flags, np.uint8)
        rewards = np.frombuffer(reply.rewards, "<f8")
        return self._batch(), rewards, flags & 1 != 0, flags & 2 != 0, infos

    def start(self, actions: dict[int, Any], wait: int | None = None, patience: float | None = None) -> Any:
        """Step some lanes; return the reply and the lanes in it."""
        column = self._act.encode(list(actions.values()), "action") if actions else None
        lanes = np.array(list(actions), "<u4").tobytes()
        reply = self.ask(m.Step, column, lanes, wait, patience)
        return reply, self.lanes_of(reply)

    def observations(self, reply: Any) -> list[Any]:
        """Return the observations in a reply, one a lane."""
        lanes = self.lanes_of(reply)
        return self._obs.decode(reply.observations, len(lanes)) if lanes else []

    def close_extras(self, **kwargs: Any) -> None:
        """Close the stage."""
        self.stage.close()

    def _finals(self, reply: Any, count: int) -> list[dict[str, Any]]:
        if not count:
            return []
        observations = self._obs.decode(reply.final_observations, count)
        infos = reply.final_infos or [{}] * count
        return [
            {"final_obs": observation, "final_info": info}
            for observation, info in zip(observations, infos, strict=True)
        ]

    def _land(self, reply: Any, lanes: list[int]) -> None:
        for lane, value in zip(lanes, self.observations(reply), strict=True):
            self._values[lane] = value

    def _batch(self) -> Any:
        if len(self._values) < self.num_envs:
            return None
        space = self.single_observation_space
        values = [self._values[lane] for lane in range(self.num_envs)]
        return concatenate(space, values, create_empty_array(space, self.num_envs))
