from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from openenv_gym.errors import ConfigError
from openenv_gym.testing import VectorEnvCheckError, check_vector_env
from openenv_gym.testing.vector import RULES
from tests.support.spacezoo import SPACES
from tests.support.testenvs import MaskedEnv, RenderEnv, SpaceEnv

from .vectors import cartpole, kept, problems

MODES = [mode.value for mode in AutoresetMode]


def test_sync_vector_env_keeps_every_rule() -> None:
    report = check_vector_env(
        lambda autoreset_mode: gym.make_vec(
            "CartPole-v1",
            3,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": autoreset_mode},
            render_mode="rgb_array",
        ),
        steps=60,
    )
    assert report.violations == ()
    assert report.modes == tuple(MODES)
    assert kept(report) == {rule.name for rule in RULES}


#: With these SyncVectorEnv itself fails: nothing to iterate over, or infos of several shapes.
UNVECTORISED = {"dict_empty", "tuple_empty", "sequence_stacked", "json"}


@pytest.mark.parametrize("kind", sorted(SPACES.keys() - UNVECTORISED))
def test_sync_vector_env_keeps_them_with_every_space(kind: str) -> None:
    envs = SyncVectorEnv([lambda: SpaceEnv(kind)] * 2)
    assert {"observations", "reset-mask", "reference"} <= kept(check_vector_env(envs, steps=12))
    assert not envs.closed


@pytest.mark.parametrize("shared_memory", [True, False])
def test_the_faults_of_async_vector_env_are_found(shared_memory: bool) -> None:
    with pytest.raises(VectorEnvCheckError) as caught:
        check_vector_env(
            lambda autoreset_mode: AsyncVectorEnv(
                [lambda: SpaceEnv("text")] * 2, autoreset_mode=autoreset_mode, shared_memory=shared_memory
            ),
            steps=20,
            skip=("missing-actions", "lists", "wrapping"),
        )
    found = {(item.rule, item.mode): item.problem for item in caught.value.report.violations}
    assert ("finished-lanes", "Disabled") in found
    if shared_memory:
        assert "observations[0] is 'aaaaaaaaaaaa' (str)" in str(found["reference", "NextStep"])
    else:
        assert ("reference", "NextStep") not in found
        assert "and step after an end: lanes[0].observation is" in str(found["explicit-reset", "NextStep"])


def test_an_error_says_what_is_wrong_and_what_to_do() -> None:
    class Wrong(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            observations, rewards, *rest = super().step(actions)
            return (observations, rewards.tolist(), *rest)

    with pytest.raises(VectorEnvCheckError) as caught:
        check_vector_env(lambda: Wrong([cartpole] * 2), steps=10)
    text = str(caught.value)
    assert text.startswith(f"Wrong(num_envs=2) violates 4 of {len(RULES)} rules:\nresults: reset returns (")
    assert "    [NextStep] call 1: rewards are a list, not an array\n    -> make new arrays" in text
    assert caught.value.report.outcome("results") == "violated"
    assert "results: violated\n      [NextStep] call 1: rewards" in str(caught.value.report)


def test_an_env_without_a_factory_is_checked_as_far_as_that_goes() -> None:
    envs = SyncVectorEnv([cartpole] * 2, autoreset_mode="SameStep")
    report = check_vector_env(envs, steps=40)
    assert report.modes == ("SameStep",)
    unchecked = {item.rule: item.unchecked for item in report.findings if item.unchecked}
    assert unchecked["close"] == "it takes an environment of its own; pass a factory"
    assert unchecked["finished-lanes"] == "the mode is not DISABLED"
    assert report.outcome("render") == "not checked"
    assert "render: not checked\n      [SameStep] the env was not made with" in str(report)
    envs.reset()
    envs.close()


def test_a_mode_that_the_factory_refuses_is_not_checked() -> None:
    def make(autoreset_mode: str) -> SyncVectorEnv:
        if autoreset_mode == "Disabled":
            raise ValueError("no such mode")
        return SyncVectorEnv([cartpole] * 2, autoreset_mode=autoreset_mode)

    report = check_vector_env(make, steps=5)
    assert (
        "asked-mode",
        "Disabled",
        None,
        "the mode is refused: ValueError: no such mode",
    ) in report.findings
    assert report.outcome("asked-mode") == "kept"


def next_step_only(autoreset_mode: str) -> SyncVectorEnv:
    if autoreset_mode != "NextStep":
        raise ValueError("no such mode")
    return SyncVectorEnv([cartpole] * 2)


def test_a_factory_of_one_mode_is_checked_in_it() -> None:
    report = check_vector_env(next_step_only, steps=5)
    assert report.outcome("own-metadata") == "not checked"
    why = "it takes an env of another mode, which is refused: no such mode"
    assert ("own-metadata", "NextStep", None, why) in report.findings


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_factory_of_one_mode_is_checked_by_few_rules(count: int) -> None:
    report = check_vector_env(next_step_only, steps=5, skip=[rule.name for rule in RULES[count:]])
    assert [item.mode for item in report.findings] == ["NextStep"] * count + ["SameStep", "Disabled"]


def test_a_factory_that_makes_nothing_raises_what_it_raises() -> None:
    def make(autoreset_mode: str) -> SyncVectorEnv:
        raise RuntimeError("no display")

    with pytest.raises(RuntimeError, match="no display"):
        check_vector_env(make)


def test_a_policy_chooses_the_actions() -> None:
    def allowed(observations: Any, infos: dict[str, Any]) -> Any:
        return [int(env.action_masks().argmax()) for env in envs.envs]

    envs = SyncVectorEnv([MaskedEnv] * 2)
    skipped = ("reset-mask", "missing-actions")
    assert "rollout" in kept(check_vector_env(envs, steps=8, policy=allowed, skip=skipped))


def test_a_reference_stands_for_env_fns() -> None:
    class Anonymous(SyncVectorEnv):
        def __init__(self, env_fns: Any, **options: Any) -> None:
            super().__init__(env_fns, **options)
            del self.env_fns

    envs = Anonymous([cartpole] * 2)
    assert check_vector_env(envs, steps=5).outcome("reference") == "not checked"
    assert check_vector_env(envs, steps=5, reference=cartpole).outcome("reference") == "kept"
    with pytest.raises(VectorEnvCheckError, match=r"call 0 \(reset\): observations is an array of float32"):
        check_vector_env(envs, steps=5, reference=RenderEnv)


def test_a_failing_rollout_is_one_problem() -> None:
    class Failing(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            raise OSError("the simulator is gone")

    found = problems(Failing, steps=5)
    assert found == {"rollout": dict.fromkeys(MODES, "raised OSError: the simulator is gone")}


@pytest.mark.parametrize(
    ("options", "says"), [({"skip": ["reset_mask"]}, "skip has"), ({"steps": 0}, "steps is 0")]
)
def test_wrong_options_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check_vector_env(lambda: SyncVectorEnv([cartpole]), **options)


def test_one_lane_is_checked_as_far_as_that_goes() -> None:
    report = check_vector_env(lambda: SyncVectorEnv([cartpole]), steps=30)
    assert report.outcome("missing-actions") == report.outcome("reset-mask") == "not checked"
    assert report.outcome("explicit-reset") == "kept"


@pytest.mark.parametrize(
    ("envs", "says"),
    [
        (3, "envs is a int; pass a gymnasium.vector.VectorEnv"),
        (lambda: gym.make("CartPole-v1").unwrapped, "the function made a CartPoleEnv; pass"),
        (lambda autoreset_mode: None, "the function made a NoneType; pass"),
    ],
)
def test_what_is_no_vector_environment_is_refused(envs: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check_vector_env(envs)
