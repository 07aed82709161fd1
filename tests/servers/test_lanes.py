"""A group of lanes does what SyncVectorEnv does, bit for bit, and everything else lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openenv_gym.errors import ForbiddenError, RemoteEnvironmentError, RemoteProtocolError, ResetNeededError
from openenv_gym.protocol import messages as m
from openenv_gym.testing.compare import difference
from tests.support.faultenvs import notes
from tests.support.testenvs import INFO_IDS, REWARD_IDS, SPACE_IDS

from .lanescene import MODES, Client, opened, sync

_TEST_ENVS = "tests.support.testenvs"
#: What Gymnasium itself cannot put into a batch.
_UNBATCHED = {f"Space-{kind}-v0" for kind in ("dict_empty", "tuple_empty", "sequence_stacked", "json")}
_UNBATCHED.add("Reward-array-v0")
_BATCHED = [env_id for env_id in [*SPACE_IDS, *REWARD_IDS] if env_id not in _UNBATCHED]
_IDS = ["CartPole-v1", "FrozenLake-v1", "Blackjack-v1", "Pendulum-v1"]


@pytest.fixture
def clients() -> Iterator[Callable[..., Client]]:
    made: list[Client] = []

    def make(target: str, **fields: Any) -> Client:
        made.append(opened(target, **fields))
        return made[-1]

    yield make
    for client in made:
        client.close()


def _roll(client: Client, local: Any, steps: int, mode: str) -> None:
    """Drive both with the same actions and masks; every value they return is the same."""
    rng = np.random.default_rng(0)
    local.action_space.seed(1)
    text = difference(client.reset(seed=3), local.reset(seed=3), "reset")
    assert text is None, text
    for step in range(steps):
        actions = local.action_space.sample()
        theirs = local.step(actions)
        text = difference(client.step(actions), theirs, f"step {step}")
        assert text is None, text
        ended = theirs[2] | theirs[3]
        mask = ended if mode == "disabled" else rng.random(local.num_envs) < 0.1
        if mask.any():
            seeds = [None if lane % 2 else int(rng.integers(100)) for lane in range(local.num_envs)]
            again = local.reset(seed=seeds, options={"reset_mask": mask.copy()})
            text = difference(client.reset(seed=seeds, mask=mask), again, f"reset after step {step}")
            assert text is None, text
    local.close()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("target", _IDS)
def test_lanes_do_what_they_do_locally(clients: Any, target: str, threads: int, mode: str) -> None:
    client = clients(target, lanes=5, threads=threads, autoreset=mode)
    _roll(client, sync(target, 5, mode), 60, mode)


@pytest.mark.parametrize(
    ("target", "mode"),
    [(env_id, list(MODES)[at % 3]) for at, env_id in enumerate(_BATCHED)],
)
def test_every_space_and_every_reward_does(clients: Any, target: str, mode: str) -> None:
    client = clients(f"{_TEST_ENVS}:{target}", lanes=3, autoreset=mode)
    _roll(client, sync(target, 3, mode), 24, mode)


@pytest.mark.filterwarnings("ignore:a value of type:UserWarning")
@pytest.mark.parametrize("target", INFO_IDS)
def test_infos_arrive_as_they_do_from_one_lane(clients: Any, target: str) -> None:
    many, one = clients(f"{_TEST_ENVS}:{target}", lanes=2), clients(f"{_TEST_ENVS}:{target}", lanes=1)
    alone = [one.ask(m.Reset).infos[0]]
    assert not difference(many.ask(m.Reset).infos, alone * 2)
    for _ in range(3):
        actions = np.zeros(1, np.int64)
        one.step(actions)
        many.step(np.zeros(2, np.int64))
        assert not difference(many.last.infos, one.last.infos * 2)


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_episodes_are_truncated_when_the_client_says_so(clients: Any, mode: str) -> None:
    client = clients("CartPole-v1", lanes=3, autoreset=mode, limits=m.Limits(episode=7))
    _roll(client, sync("CartPole-v1", 3, mode, max_episode_steps=7), 30, mode)


def test_lanes_may_have_arguments_of_their_own(clients: Any) -> None:
    each = [{"a": lane} for lane in range(3)]
    client = clients(f"{_TEST_ENVS}:Options-v0", lanes=3, env_kwargs=each)
    _, infos = client.reset(seed=[7, 8, 9], options={"x": [1]})
    assert infos["kwargs"]["a"].tolist() == [0, 1, 2]
    assert infos["seed"].tolist() == [7, 8, 9]
    assert infos["options"]["x"].tolist() == [[1], [1], [1]]


def test_one_lane_is_a_group_for_a_client_that_says_so(clients: Any) -> None:
    client = clients("CartPole-v1", lanes=1, autoreset="next_step")
    _roll(client, sync("CartPole-v1", 1, "next_step"), 60, "next_step")


def test_a_lane_without_episode_is_not_stepped_and_neither_are_the_others(
    clients: Any, tmp_path: Path
) -> None:
    path = tmp_path / "notes"
    client = clients(f"{_TEST_ENVS}:Counter-v0", lanes=4, env_kwargs={"path": str(path)})
    with pytest.raises(ResetNeededError, match="lanes 0, 1, 2, 3 have no episode") as caught:
        client.step(np.zeros(4, np.int64))
    assert caught.value.details["lanes"] == [0, 1, 2, 3]
    client.reset(mask=[True, False, True, False])
    with pytest.raises(ResetNeededError, match="lanes 1, 3 have no episode"):
        client.step(np.zeros(4, np.int64))
    assert "s" not in notes(path)


def test_a_lane_that_ended_needs_a_reset_without_autoreset(clients: Any) -> None:
    client = clients("CartPole-v1", lanes=2, limits=m.Limits(episode=2))
    client.reset(seed=0)
    client.step(np.zeros(2, np.int64))
    assert client.step(np.zeros(2, np.int64))[3].tolist() == [True, True]
    client.reset(mask=[False, True])
    with pytest.raises(ResetNeededError, match="lanes 0 have no episode"):
        client.step(np.zeros(2, np.int64))


def test_infos_that_are_all_empty_are_left_out(clients: Any) -> None:
    client = clients("CartPole-v1", lanes=2)
    client.reset(seed=0)
    assert client.last.infos is None
    client.step(np.zeros(2, np.int64))
    assert (client.last.infos, client.last.lanes, client.failed) == (None, None, [])


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"seeds": [1, 2]}, "2 seeds for 3 lanes"),
        ({"seeds": []}, "0 seeds for 3 lanes"),
        ({"mask": b"\1\0"}, "must be 3 bytes"),
        ({"mask": b"\1\2\0"}, "must be 3 bytes: 1 for a lane"),
    ],
)
def test_a_reset_that_does_not_fit_the_lanes_is_refused(clients: Any, fields: Any, says: str) -> None:
    client = clients("CartPole-v1", lanes=3)
    with pytest.raises(RemoteProtocolError, match=says):
        client.ask(m.Reset, **fields)


@pytest.mark.parametrize(
    ("lanes", "says"),
    [
        (b"\0\0\0", "no array of uint32"),
        (b"\3\0\0\0", r"below 3; it names \[3\]"),
        (b"\1\0\0\0\1\0\0\0", "different lanes"),
    ],
)
def test_a_step_of_lanes_that_are_not_there_is_refused(clients: Any, lanes: bytes, says: str) -> None:
    client = clients("CartPole-v1", lanes=3)
    client.reset(seed=0)
    with pytest.raises(RemoteProtocolError, match=says):
        client.ask(m.Step, b"", lanes)


def test_actions_of_another_number_of_lanes_are_refused(clients: Any) -> None:
    client = clients("CartPole-v1", lanes=3)
    client.reset(seed=0)
    with pytest.raises(RemoteProtocolError, match="24 bytes were due"):
        client.ask(m.Step, bytes(16))


def test_attributes_are_read_set_and_called_lane_by_lane(clients: Any) -> None:
    client = clients(f"{_TEST_ENVS}:Counter-v0", lanes=3, threads=2)
    client.reset()
    assert client.ask(m.Set, "level", [1, 2, 3]).values == [None] * 3
    assert client.ask(m.Get, "level").values == [1, 2, 3]
    assert client.ask(m.Call, "bump", [5]).values == [5, 5, 5]
    reply = client.ask(m.Get, "bump")
    assert (reply.values, reply.callable) == ([None] * 3, True)
    with pytest.raises(RemoteProtocolError, match="2 values for 3 lanes"):
        client.ask(m.Set, "level", [1, 2])
    with pytest.raises(ForbiddenError, match="lane 0: '_level' is private"):
        client.ask(m.Get, "_level")
    with pytest.raises(RemoteEnvironmentError, match="lane 0: .*no_such") as caught:
        client.ask(m.Get, "no_such")
    assert caught.value.details["lanes"] == [0, 1, 2]
    with pytest.raises(RemoteProtocolError, match="no 'state'"):
        client.ask(m.State)


def test_every_lane_is_rendered(clients: Any) -> None:
    client = clients("CartPole-v1", lanes=2, render_mode="rgb_array")
    client.reset(seed=0)
    local = sync("CartPole-v1", 2, "disabled", render_mode="rgb_array")
    local.reset(seed=0)
    text = difference(tuple(client.ask(m.Render).frames), local.render(), "frames")
    local.close()
    assert text is None, text


def test_how_long_lanes_waited_and_worked_is_told_to_those_who_ask(clients: Any) -> None:
    client = clients(
        f"{_TEST_ENVS}:Sleep-v0",
        lanes=3,
        capabilities=["lanes", "timing"],
        env_kwargs=[{"step": 0.02}, {}, {}],
    )
    client.reset()
    client.step(np.zeros(3, np.int64))
    codec, *pairs = client.last.timing
    waited, worked = pairs[::2], pairs[1::2]
    assert codec > 0
    assert worked[0] >= 20_000_000 > waited[0]
    assert 0 < worked[1] < 20_000_000 <= waited[1] < waited[2]
    reply, lanes = client.start({2: 0})
    assert (lanes, len(reply.timing)) == ([2], 3)


def test_attributes_and_methods_of_named_lanes() -> None:
    client = opened("tests.support.testenvs:Attr-v0", lanes=3)
    stage = client.stage
    lanes = np.array([2, 0], "<u4").tobytes()
    assert stage.answer(m.Call(1, "add", [1], {"right": 3}, lanes)) == m.Value(1, [4, 4])
    assert stage.answer(m.Set(2, "gravity", [20.0, 1.0], lanes)) == m.Value(2, [None, None])
    assert stage.answer(m.Get(3, "gravity")) == m.Value(3, [1.0, 9.8, 20.0])
    assert stage.answer(m.Call(4, "add", [1], lanes=b"")) == m.Value(4, [])
    with pytest.raises(RemoteProtocolError, match="'set' has 3 values for 2 lanes"):
        stage.answer(m.Set(5, "gravity", [1.0, 2.0, 3.0], lanes))
    for wrong in (b"\3\0\0\0", bytes(8), b"\1"):
        with pytest.raises(RemoteProtocolError, match="'call'"):
            stage.answer(m.Call(6, "add", [1], lanes=wrong))
    client.close()
