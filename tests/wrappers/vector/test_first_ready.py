from __future__ import annotations

import multiprocessing
from typing import Any

import numpy as np
import pytest
from gymnasium.error import AlreadyPendingCallError, NoAsyncCallError

from openenv_gym.errors import ConfigError, InvalidActionError, ResetNeededError
from openenv_gym.registration import mirror
from openenv_gym.testing import difference
from tests.support import testenvs

from .rollouts import agree, local, making

mirror()
assert testenvs.SPACE_IDS


@pytest.mark.parametrize("lanes_per_worker", [None, 1])
def test_the_quick_lanes_come_first_and_the_slow_one_gets_its_turn(lanes_per_worker: int | None) -> None:
    options: dict[str, Any] = {"lanes_per_worker": lanes_per_worker, "lane_threads": 4}
    with making("Sleep-v0", 4, env_kwargs={"unit": 0.004}, **options) as envs:
        envs.reset()
        envs.send(np.array([1, 900, 2, 3]))
        batch = envs.recv(3)
        assert sorted(batch.lanes.tolist()) == [0, 2, 3]
        assert [{0: 1, 2: 2, 3: 3}[lane] for lane in batch.lanes] == batch.observations.tolist()
        assert batch.infos["total"].tolist() == [1, 1, 1]
        envs.send(np.array([4, 5]), [3, 0])
        again = envs.recv(2)
        assert dict(zip(again.lanes.tolist(), again.observations.tolist(), strict=True)) == {3: 4, 0: 5}
        last = envs.recv()
        assert (last.lanes.tolist(), last.observations.tolist()) == ([1], [900])
        assert last.lanes.dtype == np.int64


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("lanes_per_worker", [None, 2])
def test_results_are_the_same_as_those_of_step(mode: str, lanes_per_worker: int | None) -> None:
    with making("CartPole-v1", 5, autoreset_mode=mode, lanes_per_worker=lanes_per_worker) as envs:
        sync = local("CartPole-v1", 5, envs.autoreset_mode)
        sync.action_space.seed(1)
        agree(envs.reset(seed=3), sync.reset(seed=3), "reset")
        for step in range(60):
            actions = sync.action_space.sample()
            order = np.random.default_rng(step).permutation(5)
            envs.send(actions[order[:2]], order[:2])
            envs.send(actions[order[2:]], order[2:])
            batch = envs.recv(lanes=range(5))
            agree(batch[:5], sync.step(actions), f"step {step}")
            assert batch.lanes.tolist() == [0, 1, 2, 3, 4]
        sync.close()


def test_the_number_of_lanes_may_be_numpys_and_the_timeout_is_a_number() -> None:
    with making("Counter-v0", 2) as envs:
        envs.reset()
        envs.send(np.zeros(2, np.int64))
        with pytest.raises(TypeError, match="timeout is 'soon'"):
            envs.recv(timeout="soon")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"at least 1, not (np\.int64\()?0"):
            envs.recv(np.int64(0))  # type: ignore[arg-type]
        assert envs.recv(np.int64(2)).observations.tolist() == [1, 1]  # type: ignore[arg-type]


def test_first_ready_batches_and_whole_steps_may_take_turns() -> None:
    with making("CartPole-v1", 3, autoreset_mode="Disabled", lanes_per_worker=2) as envs:
        sync = local("CartPole-v1", 3, envs.autoreset_mode)
        agree(envs.reset(seed=3), sync.reset(seed=3), "reset")
        actions = np.zeros(3, np.int64)
        envs.send(actions)
        agree(envs.recv(lanes=[0, 1, 2])[:5], sync.step(actions), "send")
        agree(envs.step(actions), sync.step(actions), "step")
        mask = np.array([False, True, True])
        mine = envs.reset(seed=9, options={"reset_mask": mask})
        agree(mine, sync.reset(seed=9, options={"reset_mask": mask}), "masked reset")
        sync.close()


def test_a_lane_is_reset_while_others_run() -> None:
    options: dict[str, Any] = {"autoreset_mode": "Disabled", "lane_threads": 3, "max_episode_steps": 1}
    with making("Sleep-v0", 3, env_kwargs={"unit": 0.004}, **options) as envs:
        envs.reset()
        envs.send(np.array([1, 600, 2]))
        ready = envs.recv(2)
        assert ready.truncations.all()
        with pytest.raises(ResetNeededError, match="in lane 0"):
            envs.send([1], [0])
        mask = np.array([True, False, True])
        assert envs.reset(options={"reset_mask": mask})[0].tolist() == [0, 0, 0]
        envs.send([7], [0])
        assert envs.recv(lanes=[0]).observations.tolist() == [7]
        with pytest.raises(AlreadyPendingCallError, match=r"reset\(\) came before the results of lane 1"):
            envs.reset()
        assert envs.recv(lanes=[1]).observations.tolist() == [600]


def test_who_stops_waiting_loses_nothing() -> None:
    with making("Sleep-v0", 2, env_kwargs={"unit": 0.005}, lane_threads=2) as envs:
        envs.reset()
        envs.send(np.array([600, 700]))
        with pytest.raises(multiprocessing.TimeoutError, match=r"recv\(\) waits on"):
            envs.recv(2, timeout=0.01)
        assert sorted(envs.recv(2).observations.tolist()) == [600, 700]


class TestOrderOfCalls:
    def test_a_lane_is_sent_once(self) -> None:
        with making("Counter-v0", 3) as envs:
            envs.reset()
            envs.send([0, 0], [0, 2])
            with pytest.raises(
                AlreadyPendingCallError, match="names lane 2, whose results were not received"
            ):
                envs.send([0, 0], [1, 2])
            for call in (
                lambda: envs.step(np.zeros(3, np.int64)),
                envs.render,
                lambda: envs.get_attr("count"),
            ):
                with pytest.raises(AlreadyPendingCallError, match=r"lanes 0, 2 were received; call recv\(\)"):
                    call()
            envs.recv(2)
            assert envs.get_attr("count") == (1, 0, 1)

    def test_nothing_is_received_that_was_not_sent(self) -> None:
        with making("Counter-v0", 3) as envs:
            envs.reset()
            with pytest.raises(NoAsyncCallError, match=r"call send\(\) before recv\(\)"):
                envs.recv()
            envs.send([0], [1])
            with pytest.raises(NoAsyncCallError, match="wait for 2 lanes, and 1 of them were sent"):
                envs.recv(2)
            with pytest.raises(NoAsyncCallError):
                envs.recv(lanes=[0])
            for wrong in (0, -1, 1.5, True):
                with pytest.raises(ValueError, match="at least 1"):
                    envs.recv(wrong)  # type: ignore[arg-type]
            assert envs.recv(1).lanes.tolist() == [1]

    def test_nothing_is_sent_without_an_episode(self) -> None:
        with making("Counter-v0", 2) as envs, pytest.raises(ResetNeededError, match="in lanes 0, 1"):
            envs.send([0, 0])

    @pytest.mark.parametrize("lanes", [[], [0, 0], [-1], [2], [0.5], "01", [[0]]])
    def test_lanes_are_different_indices(self, lanes: Any) -> None:
        with making("Counter-v0", 2) as envs:
            envs.reset()
            with pytest.raises(InvalidActionError, match="indices"):
                envs.send(np.zeros(len(lanes), np.int64), lanes)

    @pytest.mark.parametrize("actions", [[0], [0, 0, 0], [0, 5000], np.zeros(2)])
    def test_what_is_no_batch_of_actions_is_not_sent(self, actions: Any) -> None:
        with making("Counter-v0", 3, lanes_per_worker=2) as envs:
            envs.reset()
            with pytest.raises(InvalidActionError):
                envs.send(actions, [0, 2])
            envs.send([1, 1], [0, 2])
            assert envs.recv(2).infos["total"].tolist() == [1, 1]

    def test_native_lanes_step_together(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with making("Counter-v0", 2) as envs:
            envs.reset()
            monkeypatch.setattr(envs, "native", True)
            with pytest.raises(ConfigError, match="stepped together"):
                envs.send([0, 0])
            monkeypatch.setattr(envs, "native", False)


def test_actions_of_every_kind_of_batch_are_taken_apart() -> None:
    with making("Space-nested-v0", 4, lanes_per_worker=2) as envs:
        sync = local("Space-nested-v0", 4)
        sync.action_space.seed(0)
        agree(envs.reset(seed=1), sync.reset(seed=1), "reset")
        for _ in range(4):
            actions = sync.action_space.sample()
            envs.send(actions)
            assert difference(envs.recv(lanes=[0, 1, 2, 3])[:5], sync.step(actions)) is None
        sync.close()
