"""Texts become environments, in the order that the documentation gives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

import openenv_gym.envs
from openenv_gym.envs.echo_env import EchoEnvironment
from openenv_gym.errors import ArgumentError, ConfigError, ConstructionError
from openenv_gym.servers.targets import Kind, Target, resolve

MODULE = """
import gymnasium
from gymnasium.wrappers import TimeLimit

class MyEnv(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array", "human"]}
    action_space = observation_space = gymnasium.spaces.Discrete(2)
    closed = 0
    def __init__(self, size=1, render_mode=None, max_episode_steps=None):
        self.size, self.render_mode, self.steps = size, render_mode, max_episode_steps
    def reset(self, *, seed=None, options=None):
        return 0, {}
    def step(self, action):
        return 0, 0.0, False, False, {}
    def close(self):
        type(self).closed += 1

class Plain(gymnasium.Env):
    action_space = observation_space = gymnasium.spaces.Discrete(2)
    def __init__(self, size=1):
        self.size = size

class Late(MyEnv):
    metadata = {"render_modes": []}
    def __init__(self, render_mode=None):
        super().__init__(render_mode=render_mode)
        self.metadata = {"render_modes": ["ansi"]}

def factory(**kwargs):
    return TimeLimit(MyEnv(**kwargs), 3)

def broken():
    raise KeyError("x")

def nothing():
    return None

def a_class():
    return MyEnv

def vector():
    return gymnasium.make_vec("CartPole-v1", num_envs=1)

gymnasium.register("t_mod/Mine-v0", "t_targets_mod:MyEnv", max_episode_steps=5, reward_threshold=2.0,
                   nondeterministic=True, kwargs={"size": 4})
gymnasium.register("TBoth", "t_targets_mod:MyEnv", kwargs={"size": 9})
gymnasium.register("t_mod/Vector-v0", vector_entry_point="t_targets_mod:vector")
TBoth = Plain
"""


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("targets")
    (folder / "t_targets_mod.py").write_text(MODULE)
    before, known = list(sys.path), set(gym.registry)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path[:] = before
    sys.modules.pop("t_targets_mod", None)
    for name in set(gym.registry) - known:
        del gym.registry[name]


@pytest.fixture
def fresh() -> Iterator[None]:
    """The module as if it had never been imported."""
    sys.modules.pop("t_targets_mod", None)
    for name in ("t_mod/Mine-v0", "TBoth", "t_mod/Vector-v0"):
        gym.registry.pop(name, None)
    yield


# -- what a text names


def test_a_bundled_name() -> None:
    target = resolve("echo")
    assert (target.name, target.text, target.kind) == ("echo", "echo", Kind.BUNDLED)
    assert target.how == "bundled environment"


def test_every_bundled_folder_is_listed() -> None:
    (root,) = openenv_gym.envs.__path__
    folders = {path.name.removesuffix("_env") for path in Path(root).glob("*_env")}
    assert folders == set(openenv_gym.envs.BUNDLED)


def test_a_gymnasium_id() -> None:
    target = resolve("CartPole-v1")
    assert (target.name, target.kind) == ("CartPole-v1", Kind.GYMNASIUM)
    assert target.spec() == {"max_episode_steps": 500, "reward_threshold": 475.0, "nondeterministic": False}


def test_an_id_without_version_is_the_newest() -> None:
    target = resolve("CartPole")
    assert (target.text, target.name) == ("CartPole", "CartPole-v1")
    assert target.matches("CartPole-v1")
    assert target.matches("CartPole")


@pytest.mark.usefixtures("fresh")
def test_an_id_of_a_module_is_known_by_its_own_name_and_not_imported_early() -> None:
    target = resolve("t_targets_mod:t_mod/Mine-v0")
    assert (target.name, target.kind) == ("t_mod/Mine-v0", Kind.GYMNASIUM)
    assert "t_targets_mod" not in sys.modules
    target.preload()
    assert "t_targets_mod" in sys.modules
    assert target.spec() == {"max_episode_steps": 5, "reward_threshold": 2.0, "nondeterministic": True}


@pytest.mark.usefixtures("fresh")
def test_an_import_string_is_not_imported_early() -> None:
    target = resolve("t_targets_mod:MyEnv")
    assert (target.name, target.kind) == ("t_targets_mod:MyEnv", Kind.IMPORT)
    assert "t_targets_mod" not in sys.modules
    assert target.build({"size": 3}).size == 3
    assert target.spec() == {"max_episode_steps": None, "reward_threshold": None, "nondeterministic": False}


@pytest.mark.usefixtures("fresh")
def test_an_id_goes_before_an_attribute_of_the_same_name() -> None:
    assert resolve("t_targets_mod:TBoth").build().unwrapped.size == 9


@pytest.mark.parametrize(
    "form", ["{}/t_targets_mod.py:MyEnv", "{}/path_env.py", "{}/pack_env", "{}/pack_env:PackEnv"]
)
def test_a_path(form: str, place: Path) -> None:
    (place / "path_env.py").write_text("from t_targets_mod import MyEnv\nclass PathEnv(MyEnv): pass")
    (place / "pack_env").mkdir(exist_ok=True)
    (place / "pack_env" / "__init__.py").write_text("from .env import PackEnv")
    (place / "pack_env" / "env.py").write_text("from t_targets_mod import MyEnv\nclass PackEnv(MyEnv): pass")
    text = form.format(place)
    target = resolve(text)
    assert (target.text, target.name, target.kind) == (text, text, Kind.PATH)
    assert target.build({"size": 2}).size == 2


def test_a_relative_path_means_the_same_elsewhere(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    target = resolve("./t_targets_mod.py:MyEnv")
    assert target.matches("t_targets_mod.py:MyEnv")
    monkeypatch.chdir("/")
    assert resolve(target.text).build({"size": 7}).size == 7


def test_ids_of_remote_environments_stand_for_what_they_lead_to(monkeypatch: pytest.MonkeyPatch) -> None:
    remote = "openenv_gym.env:RemoteEnv"
    for name, kwargs in {
        "openenv/TEcho-v0": {"target": "echo"},
        "remote/TCart-v1": {"target": "CartPole-v1", "time_limit": False},
        "openenv/TAny-v0": {},
    }.items():
        monkeypatch.setitem(gym.registry, name, EnvSpec(name, remote, kwargs=kwargs))
    assert resolve("openenv/TEcho-v0").name == "echo"
    assert resolve("remote/TCart-v1").name == "CartPole-v1"
    assert resolve("openenv_gym:remote/TCart-v1").name == "CartPole-v1"
    with pytest.raises(ConfigError, match="hosts no environment of its own"):
        resolve("openenv/TAny-v0")


def test_a_mirror_that_is_not_registered_is_seen_through() -> None:
    assert resolve("remote/t_targets_mod:t_mod/Mine-v0").name == "t_mod/Mine-v0"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("ecko", "did you mean 'echo'"),
        ("CartPol-v1", "did you mean 'CartPole-v1'"),
        ("zzz/Zzzz-v5", "not registered; if importing a module registers it, write module:zzz/Zzzz-v5"),
        ("no_module:Env", "no module 'no_module'"),
        ("no_module:a/Env-v0", "no module 'no_module'"),
        ("missing/env.py", "no such file or folder"),
        ("t_targets_mod", "package.module:EnvClass"),
        ("", "no such file"),
    ],
)
def test_a_text_that_names_nothing_lists_what_was_tried(text: str, hint: str) -> None:
    with pytest.raises(ConfigError, match="names no environment to serve") as caught:
        resolve(text)
    assert hint in caught.value.message
    tried = caught.value.details["tried"]
    assert [line.partition(":")[0] for line in tried] == [str(kind) for kind in Kind]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("t_targets_mod:MyEnvv", "did you mean 'MyEnv'"),
        ("t_targets_mod:t_mod/Min-v0", "registers no 't_mod/Min-v0'; did you mean 't_mod/Mine-v0'"),
        ("t_targets_mod:gymnasium", "is a module; name an environment class"),
    ],
)
def test_what_is_missing_in_a_module_shows_when_it_is_imported(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        resolve(text).preload()


@pytest.mark.parametrize(
    ("text", "expected", "result"),
    [
        ("CartPole-v1", None, True),
        ("CartPole-v1", "CartPole-v1", True),
        ("CartPole-v1", "gymnasium:CartPole-v1", True),
        ("t_targets_mod:t_mod/Mine-v0", "t_mod/Mine-v0", True),
        ("t_targets_mod:t_mod/Mine-v0", "t_targets_mod:t_mod/Mine-v0", True),
        ("t_targets_mod:MyEnv", "t_targets_mod:MyEnv", True),
        ("CartPole-v1", "Acrobot-v1", False),
        ("t_targets_mod:MyEnv", "MyEnv", False),
        ("echo", "CartPole-v1", False),
    ],
)
def test_what_clients_may_expect(text: str, expected: str | None, result: bool) -> None:
    assert resolve(text).matches(expected) is result


def test_a_bundled_environment_that_is_installed_alone_is_the_same() -> None:
    alone = Target(
        "echo_env:EchoEnvironment", "echo_env:EchoEnvironment", Kind.IMPORT, lambda: EchoEnvironment
    )
    assert alone.matches("echo")
    assert not alone.matches("CartPole-v1")
    other = Target("acme:EchoEnvironment", "acme:EchoEnvironment", Kind.IMPORT, lambda: EchoEnvironment)
    assert not other.matches("echo")


def test_a_target_shows_what_it_is() -> None:
    assert repr(resolve("CartPole-v1")) == "Target('CartPole-v1', Gymnasium id)"


# -- building


def _wrappers(env: gym.Env[Any, Any]) -> list[str]:
    names = []
    while isinstance(env, gym.Wrapper):
        names.append(type(env).__name__)
        env = env.env
    return names


def test_the_time_limit_stays_unless_the_client_has_it() -> None:
    target = resolve("CartPole-v1")
    assert _wrappers(target.build()) == ["TimeLimit"]
    assert _wrappers(target.build(time_limit=False)) == []
    assert gym.registry["CartPole-v1"].max_episode_steps == 500


def test_other_wrappers_of_a_registration_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    wrapped = (
        gym.wrappers.RescaleReward if hasattr(gym.wrappers, "RescaleReward") else gym.wrappers.ClipReward
    )
    env = wrapped(gym.make("CartPole-v1"), -1.0, 1.0)
    spec = env.spec
    assert spec is not None
    spec.id = "t_mod/Wrapped-v0"
    monkeypatch.setitem(gym.registry, spec.id, spec)
    built = resolve("t_mod/Wrapped-v0").build(time_limit=False)
    assert _wrappers(built) == [wrapped.__name__]


def test_arguments_go_over_those_of_the_registration() -> None:
    target = resolve("t_targets_mod:t_mod/Mine-v0")
    assert target.build().unwrapped.size == 4
    assert target.build({"size": 5}).unwrapped.size == 5
    assert target.build().unwrapped.size == 4


def test_every_argument_reaches_the_constructor_whatever_gym_calls_its_own() -> None:
    target = resolve("t_targets_mod:t_mod/Mine-v0")
    assert target.build({"max_episode_steps": 7}).unwrapped.steps == 7


@pytest.mark.parametrize(
    "text", ["t_targets_mod:t_mod/Mine-v0", "t_targets_mod:MyEnv", "t_targets_mod:factory"]
)
def test_a_render_mode_is_passed_on(text: str) -> None:
    assert resolve(text).build(render_mode="rgb_array").render_mode == "rgb_array"
    assert resolve(text).build().render_mode is None


def test_a_render_mode_that_only_the_instance_knows() -> None:
    assert resolve("t_targets_mod:Late").build(render_mode="ansi").render_mode == "ansi"


@pytest.mark.parametrize(
    "text", ["t_targets_mod:t_mod/Mine-v0", "t_targets_mod:MyEnv", "t_targets_mod:factory"]
)
def test_an_unsupported_render_mode_is_refused_and_nothing_stays_open(text: str) -> None:
    target = resolve(text)
    with pytest.raises(ArgumentError, match=r"does not support render_mode 'ansi'; it supports 'rgb_array'$"):
        target.build(render_mode="ansi")
    module = sys.modules["t_targets_mod"]
    assert module.MyEnv.closed == (1 if text.endswith("factory") else 0)
    module.MyEnv.closed = 0


def test_a_window_on_the_server_is_refused() -> None:
    with pytest.raises(ConfigError, match="window on the server"):
        resolve("t_targets_mod:MyEnv").build(render_mode="human")


def test_an_environment_without_render_mode_says_so() -> None:
    with pytest.raises(ArgumentError, match="has no argument render_mode"):
        resolve("t_targets_mod:Plain").build(render_mode="ansi")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("nothing", r"built a builtins\.NoneType, not a gymnasium\.Env; it must derive"),
        ("a_class", "name the class itself"),
        ("vector", "serve the environment that it is made of"),
    ],
)
def test_what_is_no_environment_is_named(name: str, complaint: str) -> None:
    with pytest.raises(ConstructionError, match=complaint):
        resolve(f"t_targets_mod:{name}").build()


def test_an_environment_of_the_old_gym_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    old = type("OldEnv", (), {"__module__": "gym.core"})
    monkeypatch.setattr(sys.modules["t_targets_mod"], "old", old, raising=False)
    with pytest.raises(ConstructionError, match="old 'gym' package must be ported"):
        resolve("t_targets_mod:old").build()


@pytest.mark.parametrize(
    ("module", "complaint"),
    [
        ("acme", "'t_targets_mod:kind' is no class of a gymnasium.Env; it must derive from"),
        ("openenv.core.env_server.interfaces", "instead of the openenv package's"),
    ],
)
def test_a_class_that_is_none_is_found_before_there_are_sessions(
    module: str, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type("Foreign", (), {"__module__": module})
    monkeypatch.setattr(sys.modules["t_targets_mod"], "kind", kind, raising=False)
    with pytest.raises(ConfigError, match=complaint):
        resolve("t_targets_mod:kind").preload()


def test_types_that_will_not_do_are_found_before_there_are_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    model = type("Guess", (), {"model_fields": {}})
    kind = type("Foreign", (EchoEnvironment,), {"action_type": model})
    monkeypatch.setattr(sys.modules["t_targets_mod"], "kind", kind, raising=False)
    with pytest.raises(ConfigError, match="Guess is a pydantic model; derive it from openenv_gym's Action"):
        resolve("t_targets_mod:kind").preload()


def test_a_registration_for_vectors_only_is_named() -> None:
    target = resolve("t_targets_mod:t_mod/Vector-v0")
    for attempt in (target.preload, target.build):
        with pytest.raises(ConfigError, match="no entry_point"):
            attempt()


def test_preloading_imports_the_environment_itself() -> None:
    code = (
        "import sys; from openenv_gym.servers.targets import resolve; target = resolve('CartPole-v1');"
        "name = 'gymnasium.envs.classic_control.cartpole'; before = name in sys.modules;"
        "target.preload(); print(before, name in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False True\n"


def test_what_a_constructor_raises_comes_through() -> None:
    with pytest.raises(KeyError, match="x"):
        resolve("t_targets_mod:broken").build()
    with pytest.raises(TypeError, match="sise"):
        resolve("t_targets_mod:MyEnv").build({"sise": 1})
