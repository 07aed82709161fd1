from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from openenv_gym.testing import check_vector_env
from tests.support.testenvs import RenderEnv

from .vectors import cartpole, problems

NEXT, SAME, DISABLED = "NextStep", "SameStep", "Disabled"


def with_infos(change: Callable[[dict[str, Any]], dict[str, Any]]) -> type[SyncVectorEnv]:
    """Return a vector environment whose infos of ``step`` are changed."""

    class Changed(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            *rest, infos = super().step(actions)
            return (*rest, change(infos))

    return Changed


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"x": np.ones(3)}, "infos['x'] has no mask '_x'"),
        (
            {"x": np.ones(3), "_x": np.ones(3)},
            "infos['_x'] is array([1., 1., 1.]), not a bool array of shape",
        ),
        ({"x": np.ones(3), "_x": np.ones(2, np.bool_)}, "infos['_x'] is array([ True,  True]), not a bool"),
        ({"x": [1, 1, 1], "_x": np.ones(3, np.bool_)}, "infos['x'] is a list, not an array of 3 items"),
        ({"x": np.ones(2), "_x": np.ones(3, np.bool_)}, "infos['x'] is a ndarray, not an array of 3 items"),
        ({"x": np.ones(3), "_x": np.arange(3) > 0}, "infos['x'] has values where its mask is false"),
        ({"x": {"y": np.ones(3)}, "_x": np.ones(3, np.bool_)}, "infos['x']['y'] has no mask '_y'"),
    ],
)
def test_infos_have_their_layout(extra: dict[str, Any], says: str) -> None:
    found = problems(with_infos(lambda infos: {**infos, **extra}), steps=3)
    assert found["infos"][NEXT].startswith(f"call 1 (step): {says}")


def test_a_lane_is_reset_in_the_next_step() -> None:
    class SteppingOn(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            if self.metadata["autoreset_mode"].value == NEXT:
                self._autoreset_envs[:] = False
            return super().step(actions)

    with pytest.warns(UserWarning, match="already returned terminated"):
        found = problems(SteppingOn, steps=40)
    assert "ended, and its next step, which should be a reset, has reward" in found["autoreset"][NEXT]
    assert set(found["reference"]) == {NEXT}


def same_step(change: Callable[[dict[str, Any]], Any]) -> dict[str, dict[str, str]]:
    def changed(infos: dict[str, Any]) -> dict[str, Any]:
        infos = dict(infos)
        if "final_obs" in infos:
            change(infos)
        return infos

    return problems(with_infos(changed), steps=40, skip=["wrapping", "statistics", "lists"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda infos: infos.pop("final_obs"), "ended, and infos have no 'final_obs' with a mask"),
        (lambda infos: infos.pop("_final_info"), "ended, and infos have no 'final_info' with a mask"),
        (lambda infos: infos["_final_obs"].fill(True), "infos['_final_obs'] is [ True  True  True], but"),
        (
            lambda infos: infos.update(final_info=np.full(3, {})),
            "infos['final_info'] is a ndarray, not a dict",
        ),
        (
            lambda infos: infos.update(final_obs=np.zeros((3, 4))),
            "infos['final_obs'] is not an array of objects",
        ),
        (lambda infos: infos["final_obs"].fill("over"), "is not in single_observation_space"),
    ],
)
def test_final_infos_are_there_in_same_step(change: Callable[[dict[str, Any]], Any], says: str) -> None:
    found = same_step(change)
    assert set(found["autoreset"]) == {SAME}
    assert says in found["autoreset"][SAME]


def test_final_infos_are_in_no_other_mode() -> None:
    extra = {"final_obs": np.full(3, None), "_final_obs": np.zeros(3, np.bool_)}
    found = problems(with_infos(lambda infos: {**extra, **infos}), steps=40)
    assert set(found["autoreset"]) == {NEXT, DISABLED}
    assert "infos have ['final_obs'], which belong to SAME_STEP" in found["autoreset"][NEXT]


def test_the_action_of_a_reset_is_ignored() -> None:
    class Using(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            over = self._autoreset_envs.copy()
            result = super().step(actions)
            result[0][over, 0] += actions[over]
            return result

    found = problems(Using, steps=40)
    assert found["ignored-action"][NEXT].startswith("with another action in lanes [")


def test_a_reset_lane_is_not_reset_again() -> None:
    class Forgetful(SyncVectorEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            over = self._autoreset_envs.copy()
            result = super().reset(seed=seed, options=options)
            if self.metadata["autoreset_mode"].value == NEXT:
                self._autoreset_envs = over
            return result

    found = problems(Forgetful, steps=40)
    assert found["explicit-reset"][NEXT].startswith("reset(seed=) and step after an end: results[1][0]")
    assert "reference" not in found


def test_finished_lanes_are_not_stepped_in_disabled() -> None:
    class Lenient(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            if self.metadata["autoreset_mode"].value == DISABLED:
                self._autoreset_envs[:] = False
            return super().step(actions)

    with pytest.warns(UserWarning, match="already returned terminated"):
        found = problems(Lenient, steps=40)
    assert found == {"finished-lanes": {DISABLED: "lanes [0] have ended, and were stepped on"}}


def test_results_are_those_of_the_reference() -> None:
    class Rounding(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            observations, *rest = super().step(actions)
            return (observations.round(3), *rest)

    found = problems(Rounding, steps=5)
    assert found["reference"][NEXT].startswith("call 1 (step): observations[0, 0] is")


def test_endless_episodes_leave_rules_open() -> None:
    report = check_vector_env(SyncVectorEnv([RenderEnv] * 2), steps=3)
    unchecked = {item.rule: item.unchecked for item in report.findings}
    assert unchecked["autoreset"] == "no episode ended in the rollout; raise steps= or pass a policy="


def test_an_end_in_the_last_step_leaves_one_rule_open() -> None:
    envs = SyncVectorEnv([cartpole] * 3)
    first = next(n for n in range(1, 40) if check_vector_env(envs, steps=n).outcome("autoreset") == "kept")
    report = check_vector_env(envs, steps=first)
    assert report.outcome("ignored-action") == "not checked"
    assert check_vector_env(envs, steps=first + 1).outcome("ignored-action") == "kept"
