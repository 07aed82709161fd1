from __future__ import annotations

import copy
import gc
import json
import multiprocessing
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from openenv_gym.env import RemoteEnv
from openenv_gym.errors import (
    CapacityError,
    ConfigError,
    ConstructionError,
    InterruptedStepError,
    InvalidActionError,
    NotCopyableError,
    ResetNeededError,
)
from openenv_gym.registration import mirror
from openenv_gym.testing import difference
from openenv_gym.wrappers.vector import RemoteVectorEnv
from tests.support import testenvs
from tests.support.faultenvs import live_peak, notes

from .rollouts import agree, compare, local, making

mirror()

#: What Gymnasium's own batching cannot do with these: there is no local counterpart.
UNBATCHABLE = ("dict_empty", "tuple_empty", "sequence_stacked", "json")
SPACES = [name for name in testenvs.SPACE_IDS if not name.removeprefix("Space-").startswith(UNBATCHABLE)]
CLASSICS = ["CartPole-v1", "FrozenLake-v1", "Blackjack-v1", "Pendulum-v1"]
NUMBERS = [name for name in testenvs.REWARD_IDS if name != "Reward-array-v0"]


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("env_id", CLASSICS)
def test_results_are_those_of_the_local_vector_environment(env_id: str, mode: AutoresetMode) -> None:
    with making(env_id, 5, autoreset_mode=mode, lanes_per_worker=3) as envs:
        sync = local(env_id, 5, mode)
        resets = compare(envs, sync, 120)
        sync.close()
    assert resets > 0 or env_id == "Pendulum-v1"


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize(("at", "env_id"), list(enumerate([*SPACES, *NUMBERS])))
def test_every_space_and_reward_is_batched_as_gymnasium_does_it(at: int, env_id: str) -> None:
    mode = list(AutoresetMode)[at % 3]
    lanes_per_worker = None if at % 2 else 2
    with making(env_id, 3, autoreset_mode=mode, lanes_per_worker=lanes_per_worker) as envs:
        sync = local(env_id, 3, mode)
        compare(envs, sync, 20)
        sync.close()


def test_the_surface_is_gymnasiums() -> None:
    with making("CartPole-v1", 3, render_mode="rgb_array") as envs:
        sync = local("CartPole-v1", 3, render_mode="rgb_array")
        for name in ("num_envs", "single_observation_space", "single_action_space", "observation_space"):
            assert getattr(envs, name) == getattr(sync, name)
        assert envs.action_space == sync.action_space
        assert envs.metadata == sync.metadata
        assert envs.render_mode == "rgb_array"
        assert not envs.closed
        assert envs.unwrapped is envs
        envs.reset(seed=1)
        sync.reset(seed=1)
        assert difference(envs.render(), sync.render()) is None
        assert envs.np_random_seed == 1
        sync.close()
    assert envs.closed


def test_metadata_of_one_are_not_those_of_another_or_of_the_class() -> None:
    before = copy.deepcopy((RemoteVectorEnv.metadata, gym.envs.classic_control.CartPoleEnv.metadata))
    with making("CartPole-v1", 1, autoreset_mode="SAME_STEP") as first, making("CartPole-v1", 1) as second:
        assert first.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
        assert second.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
        second.metadata["mine"] = 1
        assert "mine" not in first.metadata
    assert before == (RemoteVectorEnv.metadata, gym.envs.classic_control.CartPoleEnv.metadata)


def test_one_lane_is_a_vector_too() -> None:
    with making("CartPole-v1", 1) as envs:
        sync = local("CartPole-v1", 1)
        compare(envs, sync, 60)
        sync.close()


def test_an_episode_is_truncated_after_so_many_steps() -> None:
    with making("Counter-v0", 2, max_episode_steps=3) as envs:
        envs.reset(seed=0)
        actions = envs.action_space.sample()
        truncated = [envs.step(actions)[3].tolist() for _ in range(5)]
    assert truncated == [[False] * 2] * 2 + [[True] * 2] + [[False] * 2] * 2


def test_each_lane_may_have_arguments_of_its_own() -> None:
    with making("FrozenLake-v1", 2, env_kwargs=[{"is_slippery": False}, {"is_slippery": True}]) as envs:
        envs.reset(seed=0)
        infos = envs.step(np.array([2, 2]))[4]
    assert infos["prob"][0] == 1.0
    assert infos["prob"][1] < 0.5


class TestCopies:
    def test_each_call_returns_memory_of_its_own(self) -> None:
        with making("CartPole-v1", 2) as envs:
            actions = np.zeros(2, np.int64)
            batches = [envs.reset(seed=0)[0], *(envs.step(actions) for _ in range(2))]
            arrays = [batches[0], *batches[1][:4], *batches[2][:4]]
            assert not any(
                np.shares_memory(left, right) for at, left in enumerate(arrays) for right in arrays[at + 1 :]
            )
            assert all(array.flags.writeable for array in arrays)

    def test_what_the_user_writes_into_a_batch_does_not_come_back(self) -> None:
        with making("CartPole-v1", 2, autoreset_mode="DISABLED") as envs:
            first = envs.reset(seed=0)[0]
            kept = first.copy()
            first[:] = 99
            mask = np.array([True, False])
            again = envs.reset(seed=[5, None], options={"reset_mask": mask})[0]
            assert again[1].tolist() == kept[1].tolist()

    def test_without_copies_the_batch_is_overwritten(self) -> None:
        with making("CartPole-v1", 2, copy=False) as envs:
            first = envs.reset(seed=0)[0]
            kept = first.copy()
            second = envs.step(np.zeros(2, np.int64))[0]
            assert second is first
            assert not np.array_equal(kept, second)


class TestReset:
    def test_seeds(self) -> None:
        with making("CartPole-v1", 3) as envs:
            by_int = envs.reset(seed=7)[0]
            by_list = envs.reset(seed=[7, 8, 9])[0]
            mixed = envs.reset(seed=[7, None, 9])[0]
            assert by_int.tobytes() == by_list.tobytes()
            assert mixed[[0, 2]].tobytes() == by_int[[0, 2]].tobytes()
            assert mixed[1].tobytes() != by_int[1].tobytes()
            with pytest.raises(ValueError, match="num_envs=3, and 2 were given"):
                envs.reset(seed=[1, 2])

    def test_seeds_may_be_of_any_size(self) -> None:
        with making("CartPole-v1", 2) as envs:
            sync = local("CartPole-v1", 2)
            agree(envs.reset(seed=2**70), sync.reset(seed=2**70), "seed")
            agree(envs.reset(seed=[2**64, 3]), sync.reset(seed=[2**64, 3]), "seeds")
            sync.close()

    def test_options_reach_the_environments_and_stay_as_they_are(self) -> None:
        with making("Options-v0", 2) as envs:
            sync = local("Options-v0", 2)
            options: dict[str, Any] = {"level": 3, "names": ("a", "b")}
            assert (
                difference(envs.reset(seed=0, options=options), sync.reset(seed=0, options=dict(options)))
                is None
            )
            mask = np.array([False, True])
            options["reset_mask"] = mask
            mine = envs.reset(options=options)
            assert difference(mine, sync.reset(options=dict(options))) is None
            assert options["reset_mask"] is mask
            sync.close()

    def test_a_mask_needs_a_first_reset(self) -> None:
        with making("CartPole-v1", 3) as envs, pytest.raises(ResetNeededError, match="in lanes 1, 2"):
            envs.reset(options={"reset_mask": np.array([True, False, False])})


class TestOrderOfCalls:
    actions = np.zeros(2, np.int64)

    def test_nothing_steps_before_a_reset(self) -> None:
        with making("CartPole-v1", 2) as envs, pytest.raises(ResetNeededError, match=r"call reset\(\) first"):
            envs.step(self.actions)

    def test_a_lane_whose_episode_ended_is_not_stepped_on(self) -> None:
        with making("CartPole-v1", 2, autoreset_mode="Disabled", max_episode_steps=3) as envs:
            envs.reset(seed=0)
            envs.step(self.actions)
            envs.reset(options={"reset_mask": np.array([True, False])})
            envs.step(self.actions)
            assert envs.step(self.actions)[3].tolist() == [False, True]
            with pytest.raises(ResetNeededError, match="no episode to step in lane 1") as caught:
                envs.step(self.actions)
            assert caught.value.details["lanes"] == [1]
            envs.reset(options={"reset_mask": np.array([False, True])})
            envs.step(self.actions)

    def test_two_halves(self) -> None:
        with making("CartPole-v1", 2) as envs:
            sync = local("CartPole-v1", 2)
            envs.reset_async(seed=3)
            assert difference(envs.reset_wait(), sync.reset(seed=3)) is None
            envs.step_async(self.actions)
            assert difference(envs.step_wait(timeout=30), sync.step(self.actions)) is None
            sync.close()

    def test_calls_do_not_overtake_each_other(self) -> None:
        with making("CartPole-v1", 2) as envs:
            envs.reset(seed=0)
            for pending in ("reset", "step"):
                envs.reset_async() if pending == "reset" else envs.step_async(self.actions)
                for call in (
                    lambda: envs.step_async(self.actions),
                    envs.reset_async,
                    envs.render,
                    lambda: envs.get_attr("gravity"),
                    lambda: envs.set_attr("gravity", 1),
                    lambda: envs.send(self.actions),
                    envs.recv,
                ):
                    with pytest.raises(
                        AlreadyPendingCallError, match=rf"call {pending}_wait\(\) first"
                    ) as caught:
                        call()
                    assert caught.value.name == pending
                with pytest.raises(NoAsyncCallError):
                    envs.step_wait() if pending == "reset" else envs.reset_wait()
                envs.reset_wait() if pending == "reset" else envs.step_wait()

    def test_nothing_is_waited_for_that_was_not_sent(self) -> None:
        with making("CartPole-v1", 2) as envs:
            with pytest.raises(NoAsyncCallError, match=r"call reset_async\(\) before reset_wait\(\)"):
                envs.reset_wait()
            envs.reset()
            with pytest.raises(NoAsyncCallError) as caught:
                envs.step_wait()
            assert caught.value.name == "step"

    def test_after_close_there_is_nothing(self) -> None:
        with making("CartPole-v1", 2) as envs:
            envs.reset()
            envs.step_async(self.actions)
        envs.close()
        for call in (
            lambda: envs.step(self.actions),
            envs.step_wait,
            envs.reset,
            envs.reset_wait,
            envs.render,
            lambda: envs.call("reset"),
            lambda: envs.send(self.actions),
            envs.recv,
        ):
            with pytest.raises(ClosedEnvironmentError):
                call()

    def test_who_stops_waiting_may_wait_again(self) -> None:
        with making("Sleep-v0", 2, env_kwargs={"unit": 0.0075}, lane_threads=2) as envs:
            envs.reset()
            envs.step_async(np.array([1, 400]))
            with pytest.raises(multiprocessing.TimeoutError, match=r"step_wait\(\) waits on"):
                envs.step_wait(timeout=0.01)
            with pytest.raises(AlreadyPendingCallError):
                envs.step_async(self.actions)
            assert envs.step_wait()[0].tolist() == [1, 400]
            assert envs.step(self.actions)[4]["total"].tolist() == [2, 2]

    def test_an_interrupted_step_has_no_result(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with making("Counter-v0", 2) as envs:
            envs.reset(seed=0)
            part = envs._stepper.fleet.parts[0]
            with monkeypatch.context() as patch:

                def interrupt(patience: Any) -> None:
                    raise KeyboardInterrupt

                patch.setattr(type(part), "collect", lambda self, patience: interrupt(patience))
                with pytest.raises(KeyboardInterrupt):
                    envs.step(self.actions)
            with pytest.raises(InterruptedStepError, match=r"call reset\(\)"):
                envs.step(self.actions)
            envs.reset()
            assert envs.step(self.actions)[0].tolist() == [1, 1]

    @pytest.mark.parametrize(
        "actions",
        [np.zeros(3, np.int64), np.array([0, 7]), [0], np.zeros((2, 2)), None, np.array([0.5, 1.0])],
    )
    @pytest.mark.parametrize("lanes_per_worker", [None, 1])
    def test_what_is_no_batch_of_actions_is_not_sent(
        self, actions: Any, lanes_per_worker: int | None
    ) -> None:
        with making("CartPole-v1", 2, lanes_per_worker=lanes_per_worker) as envs:
            envs.reset(seed=0)
            with pytest.raises(InvalidActionError):
                envs.step(actions)
            sync = local("CartPole-v1", 2)
            sync.reset(seed=0)
            assert difference(envs.step(self.actions), sync.step(self.actions)) is None
            sync.close()


class TestLife:
    def test_an_environment_that_was_not_closed_says_so_and_frees_its_slots(self) -> None:
        kwargs = {"provider_kwargs": {"max_sessions": 2}}
        envs = None
        with making("Counter-v0", 2, **kwargs) as first:
            pass
        assert first.closed
        envs = gym.make_vec("remote/Counter-v0", num_envs=2, provider="inprocess", **kwargs)
        with pytest.warns(ResourceWarning, match="was not closed"):
            del envs
            gc.collect()
        with making("Counter-v0", 2, slot_timeout=20, **kwargs) as again:
            again.reset()

    def test_a_wrapper_that_goes_closes_nothing(self) -> None:
        with making("CartPole-v1", 2) as envs:
            wrapper = gym.wrappers.vector.RecordEpisodeStatistics(envs)
            wrapper.reset(seed=0)
            del wrapper
            gc.collect()
            # Wrappers of older versions of Gymnasium close what they wrap when they go.
            assert envs.closed == hasattr(gym.vector.VectorWrapper, "__del__")

    def test_close_may_come_twice_and_without_a_wait(self) -> None:
        with making("Sleep-v0", 2, env_kwargs={"step": 5.0}, lane_threads=2) as envs:
            envs.reset()
            envs.step_async(np.zeros(2, np.int64))
            envs.close(terminate=True)
            envs.close(timeout=1)

    def test_a_live_environment_is_not_copied(self) -> None:
        with making("CartPole-v1", 1) as envs:
            for copier in (copy.deepcopy, pickle.dumps):
                with pytest.raises(NotCopyableError, match=r"make_vec\(envs.spec\)"):
                    copier(envs)

    @pytest.mark.parametrize("lanes_per_worker", [None, 2])
    def test_a_lane_that_cannot_be_built_leaves_nothing(self, lanes_per_worker: int | None) -> None:
        each: list[dict[str, Any]] = [{}, {}, {}, {"where": "init", "at": 1}]
        with (
            pytest.raises(ConstructionError, match="^lane 3: KeyError") as caught,
            making("Crash-v0", 4, env_kwargs=each, lane_threads=1, lanes_per_worker=lanes_per_worker),
        ):
            pass
        assert caught.value.details["lanes"] == [3]

    def test_too_few_slots_are_named_before_anything_is_built(self, tmp_path: Any) -> None:
        path = str(tmp_path / "log")
        with (
            pytest.raises(CapacityError, match=r"room for 3 more lanes \(of 3\), and 4 were asked for"),
            making("Counter-v0", 4, env_kwargs={"path": path}, provider_kwargs={"max_sessions": 3}),
        ):
            pass
        assert notes(path) == ""

    def test_probes_and_lanes_are_never_alive_together(self, tmp_path: Any) -> None:
        path = str(tmp_path / "log")
        with making("Counter-v0", 4, env_kwargs={"path": path}, provider_kwargs={"max_sessions": 4}) as envs:
            envs.reset()
        marks = notes(path)
        assert marks.count("i") == marks.count("c") <= 5
        assert live_peak(path) == 4


class TestMakeVec:
    def test_the_spec_is_json_without_members_and_secrets(self) -> None:
        with making("CartPole-v1", 2, autoreset_mode=AutoresetMode.SAME_STEP, token="s3cret") as envs:
            spec = envs.spec
            assert spec is not None
            text = spec.to_json()
            assert "s3cret" not in text
            kwargs = json.loads(text)["kwargs"]
            assert (kwargs["autoreset_mode"], kwargs["num_envs"]) == ("SameStep", 2)
            again = gym.make_vec(EnvSpec.from_json(text))
            assert again.num_envs == 2
            assert again.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
            again.close()
            envs.spec = None
            assert envs.spec is None

    def test_all_arguments_reach_the_vector_class(self) -> None:
        with making("CartPole-v1", 2) as first:
            url = first.base_url[0]
            envs = gym.make_vec(
                "openenv/Remote-v0",
                num_envs=4,
                vectorization_mode="vector_entry_point",
                base_url=[url, url],
                token=first._fleet.parts[0].opener.provider.token,  # type: ignore[union-attr]
                step_timeout=7,
                disable_env_checker=True,
            )
            assert isinstance(envs, RemoteVectorEnv)
            assert [part.count for part in envs._stepper.fleet.parts] == [2, 2]
            assert envs._stepper.fleet.parts[0].opener.hello.limits.step == 7.0
            envs.close()

    @pytest.mark.parametrize("option", [{"vector_kwargs": {"a": 1}}, {"wrappers": [gym.wrappers.Autoreset]}])
    def test_what_gymnasium_refuses_for_a_vector_class_stays_refused(self, option: dict[str, Any]) -> None:
        with pytest.raises(gym.error.Error, match=r"kwargs|wrappers"), making("CartPole-v1", 2, **option):
            pass

    @pytest.mark.parametrize("mode", ["sync", "async"])
    def test_gymnasiums_own_vectors_hold_remote_environments(self, mode: str) -> None:
        envs = gym.make_vec("remote/CartPole-v1", num_envs=2, vectorization_mode=mode, provider="process")
        sync = local("CartPole-v1", 2)
        try:
            assert difference(envs.reset(seed=3)[0], sync.reset(seed=3)[0]) is None
            actions = np.zeros(2, np.int64)
            assert difference(envs.step(actions)[:4], sync.step(actions)[:4]) is None
        finally:
            envs.close()
            sync.close()

    @pytest.mark.parametrize("option", [{"servers": 2}, {"autoreset_mode": "SameStep"}, {"lanes": "native"}])
    def test_our_options_in_gymnasiums_own_vectors_say_where_they_belong(
        self, option: dict[str, Any]
    ) -> None:
        with pytest.raises(ConfigError, match="is an option of vector environments"):
            gym.make_vec("remote/CartPole-v1", num_envs=2, vectorization_mode="sync", **option)

    def test_every_id_of_ours_makes_vectors(self) -> None:
        ours = [spec for spec in gym.registry.values() if spec.entry_point == "openenv_gym.env:RemoteEnv"]
        assert len(ours) > 100
        assert {spec.vector_entry_point for spec in ours} == {"openenv_gym.wrappers.vector:RemoteVectorEnv"}

    @pytest.mark.parametrize(
        "kwargs",
        [{"copy": 1}, {"num_envs": 0}, {"time_limit": 3}, {"autoreset_mode": "x"}, {"step_timeout": 0}],
    )
    def test_wrong_arguments_are_refused(self, kwargs: dict[str, Any]) -> None:
        with pytest.raises(ConfigError):
            RemoteVectorEnv("CartPole-v1", **{"num_envs": 2, **kwargs})

    def test_a_vector_of_ours_is_no_single_environment(self) -> None:
        with making("CartPole-v1", 1) as envs:
            assert not isinstance(envs, RemoteEnv)
            assert not isinstance(envs, SyncVectorEnv)
            assert repr(envs) == "RemoteVectorEnv(remote/CartPole-v1, num_envs=1)"


class TestNative:
    """The environment's own vector class, served."""

    def local(self, lanes: int) -> Any:
        return gym.make_vec("CartPole-v1", num_envs=lanes, vectorization_mode="vector_entry_point")

    def test_results_are_those_of_the_class(self) -> None:
        with making("CartPole-v1", 6, lanes="native") as envs:
            mine = self.local(6)
            assert envs.metadata == mine.metadata
            assert len(envs._stepper.fleet.parts) == 1
            assert difference(envs.reset(seed=3), mine.reset(seed=3)) is None
            rng = np.random.default_rng(0)
            for step in range(200):
                actions = rng.integers(0, 2, 6)
                assert difference(envs.step(actions), mine.step(actions), f"step {step}") is None
            mine.close()

    def test_on_several_servers_the_seed_moves_on_with_the_lanes(self) -> None:
        with making("CartPole-v1", 2, lanes="native") as first:
            server = first._stepper.fleet.parts[0].opener
            token = server.provider.token  # type: ignore[union-attr]
            about = {"base_url": [first.base_url[0]] * 2, "token": token}
            with making("CartPole-v1", 5, lanes="native", **about) as envs:
                parts = [self.local(3), self.local(2)]
                due = [part.reset(seed=seed)[0] for part, seed in zip(parts, (7, 10), strict=True)]
                assert difference(envs.reset(seed=7)[0], np.concatenate(due)) is None
                for part in parts:
                    part.close()

    def test_what_the_class_lacks_is_said(self) -> None:
        with making("CartPole-v1", 2, lanes="native") as envs:
            envs.reset(seed=0)
            with pytest.raises(ConfigError, match=r"does not know options\['reset_mask'\]"):
                envs.reset(options={"reset_mask": np.array([True, False])})
            envs.step(np.zeros(2, np.int64))
            with pytest.raises(AttributeError, match="own vector class has no attribute 'get_attr'"):
                envs.get_attr("gravity")
            with pytest.raises(ConfigError, match="stepped apart"):
                envs.send([0, 0])

    @pytest.mark.parametrize(
        ("env_id", "mode", "says"),
        [
            ("CartPole-v1", "SameStep", "ask for its own mode"),
            ("CartPole-v1", "Disabled", "ask for its own mode"),
            ("Pendulum-v1", None, "has no vector_entry_point"),
        ],
    )
    def test_what_cannot_be_had_is_said_at_once(self, env_id: str, mode: str | None, says: str) -> None:
        with pytest.raises(ConfigError, match=says), making(env_id, 2, lanes="native", autoreset_mode=mode):
            pass
