from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from openenv_gym.testing import VectorEnvCheckError, check_vector_env

from .vectors import cartpole, problems

ALL = {mode.value for mode in AutoresetMode}


class Broken(SyncVectorEnv):
    """Does ``harm`` at the end of its constructor."""

    def __init__(self, env_fns: Any, **options: Any) -> None:
        super().__init__(env_fns, **options)
        self.harm()

    def harm(self) -> None:
        raise AssertionError


def says(cls: type[SyncVectorEnv], rule: str) -> str:
    """Return the one sentence that the checker says of ``cls`` about ``rule``, in all modes."""
    found = problems(cls, steps=2)[rule]
    assert set(found) == ALL
    (text,) = set(found.values())
    return text


def test_attributes_are_there() -> None:
    class NoSpace(Broken):
        def harm(self) -> None:
            del self.single_action_space

    class Closed(Broken):
        closed = True

        def harm(self) -> None:
            pass

    assert "single_action_space is None, not a Space" in says(NoSpace, "attributes")
    assert says(Closed, "attributes") == "closed is True while it is open, not False"


def test_spaces_are_batched() -> None:
    class Single(Broken):
        def harm(self) -> None:
            self.observation_space = self.single_observation_space

    assert says(Single, "batching").startswith("observation_space is Box(")


def test_metadata_names_the_modes() -> None:
    class Text(Broken):
        def harm(self) -> None:
            self.metadata["autoreset_mode"] = "NextStep"
            self.render_mode = "human"
            self.metadata["render_modes"] = ["ansi"]

    found = problems(Text, steps=2)["metadata"]
    assert found == {"-": "metadata['autoreset_mode'] is 'NextStep', not a member of AutoresetMode"}


def test_render_mode_is_one_of_them() -> None:
    class Human(Broken):
        def harm(self) -> None:
            self.render_mode = "holo"

    assert says(Human, "metadata") == "render_mode is 'holo', which metadata['render_modes'] lacks"


def test_the_mode_is_the_one_asked_for() -> None:
    class Stubborn(SyncVectorEnv):
        def __init__(self, env_fns: Any, autoreset_mode: Any) -> None:
            super().__init__(env_fns, autoreset_mode="NextStep")

    found = problems(Stubborn, steps=2)
    assert found == {
        "asked-mode": {
            "NextStep": "AutoresetMode.SAME_STEP was asked for; metadata['autoreset_mode'] is"
            " AutoresetMode.NEXT_STEP"
        }
    }


def test_metadata_is_the_envs_own() -> None:
    class Shared(Broken):
        metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

        def harm(self) -> None:
            Shared.metadata["autoreset_mode"] = self.autoreset_mode
            self.metadata = Shared.metadata

    found = problems(Shared, steps=2)["own-metadata"]
    assert set(found) == ALL
    assert "the metadata of class Shared are" in found["NextStep"]


def test_metadata_of_all_vector_environments_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VectorEnv, "metadata", {})

    class Base(Broken):
        def harm(self) -> None:
            VectorEnv.metadata.update(self.metadata)
            self.metadata = VectorEnv.metadata

    assert says(Base, "own-metadata").startswith("it is VectorEnv.metadata itself")


def test_attributes_of_lanes_are_tuples() -> None:
    class Lists(SyncVectorEnv):
        def get_attr(self, name: str) -> Any:
            return list(super().get_attr(name))

        def set_attr(self, name: str, values: Any) -> None:
            for env, value in zip(self.envs, values, strict=False):
                env.set_wrapper_attr(name, value)

    texts = {item.problem for item in _violations(lambda: Lists([cartpole] * 2))}
    assert texts == {
        "get_attr('render_mode') returned [None, None], not a tuple of 2",
        "set_attr(name, values) took 3 values for 2 lanes",
    }


def test_the_spec_makes_the_same_env() -> None:
    def make() -> Any:
        envs = gym.make_vec("CartPole-v1", 2, vectorization_mode="sync")
        assert envs.spec is not None
        envs.spec.kwargs["num_envs"] = 3
        return envs

    texts = [item.problem for item in _violations(make)]
    assert texts[0] == "num_envs is 3 afterwards, not 2"


def test_close_may_be_called_twice() -> None:
    class Once(SyncVectorEnv):
        def close(self, **kwargs: Any) -> None:
            assert not hasattr(self, "gone")
            self.gone = True

    class Unsaid(SyncVectorEnv):
        def close(self, **kwargs: Any) -> None:
            self.close_extras()

    assert says(Unsaid, "close") == "closed is False after close(), not True"
    with pytest.raises(VectorEnvCheckError, match=r"close: .*\n.*raised AssertionError"):
        check_vector_env(lambda: Once([cartpole]), steps=2)


def _violations(make: Any) -> Any:
    with pytest.raises(VectorEnvCheckError) as caught:
        check_vector_env(make, steps=2)
    return caught.value.report.violations
