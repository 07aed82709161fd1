from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

import openenv_gym
from openenv_gym import registration
from openenv_gym.errors import ConfigError
from openenv_gym.registration import mirror, register, register_all


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    before = dict(gym.registry)
    yield
    gym.registry.clear()
    gym.registry.update(before)


def kwargs(name: str) -> dict[str, Any]:
    return dict(gym.spec(name).kwargs)


def test_our_ids_are_there_after_the_import() -> None:
    assert kwargs("openenv/Echo-v0") == {"target": "echo"}
    assert kwargs("openenv/Gym-v0") == {"env_id": None}
    assert kwargs("openenv/Remote-v0") == {}
    assert {gym.spec(f"openenv/{name}-v0").entry_point for name in ("Echo", "Gym", "Remote")} == {
        registration.ENTRY_POINT
    }


def test_every_id_has_a_mirror_that_acts_like_it() -> None:
    assert "remote/CartPole-v1" in gym.registry
    register_all()  # for what other tests registered since the import
    ids = [spec for spec in gym.registry.values() if spec.namespace not in ("openenv", "remote")]
    assert len(ids) > 50
    for spec in ids:
        found = gym.spec(f"remote/{spec.id.replace('/', '.')}")
        for name in (
            "max_episode_steps",
            "reward_threshold",
            "nondeterministic",
            "order_enforce",
            "disable_env_checker",
        ):
            assert getattr(found, name) == getattr(spec, name), spec.id
        assert found.kwargs["time_limit"] is False
        assert found.additional_wrappers == ()


def test_a_mirror_names_what_to_import_for_it() -> None:
    assert kwargs("remote/CartPole-v1")["target"] == "CartPole-v1"
    assert kwargs("remote/phys2d.CartPole-v1")["target"] == "phys2d/CartPole-v1"
    gym.registry["acme/Maze-v3"] = EnvSpec("acme/Maze-v3", "acme_envs.mazes:MazeEnv", max_episode_steps=7)
    gym.registry["Mine-v0"] = EnvSpec("Mine-v0", _Mine)
    assert mirror("acme/Maze-v3", "Mine-v0") == ("remote/acme.Maze-v3", "remote/Mine-v0")
    assert kwargs("remote/acme.Maze-v3") == {"target": "acme_envs:acme/Maze-v3", "time_limit": False}
    assert kwargs("remote/Mine-v0")["target"] == f"{__name__.partition('.')[0]}:Mine-v0"
    assert gym.spec("remote/acme.Maze-v3").max_episode_steps == 7


class _Mine(gym.Env[Any, Any]):
    pass


def test_mirror_imports_the_module_that_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "acme_mirror_test.py").write_text(
        "import gymnasium\ngymnasium.register('Acme-v0', 'acme_mirror_test:Env')\n"
    )
    assert mirror("acme_mirror_test:Acme-v0") == ("remote/Acme-v0",)
    assert kwargs("remote/Acme-v0")["target"] == "acme_mirror_test:Acme-v0"


def test_mirror_without_ids_mirrors_what_came_since() -> None:
    gym.registry["Late-v0"] = EnvSpec("Late-v0", "late:Env")
    assert "remote/Late-v0" in mirror()
    assert "remote/Late-v0" in gym.registry


@pytest.mark.parametrize("name", ["Nope-v0", "no_such_module:Nope-v0"])
def test_an_unknown_id_cannot_be_mirrored(name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' cannot be mirrored"):
        mirror(name)


def test_remote_ids_have_no_mirror() -> None:
    assert mirror("openenv/Echo-v0", "remote/CartPole-v1") == ()
    register("acme/Remote-v0", "acme:Env")
    assert mirror("acme/Remote-v0") == ()


def test_registering_again_is_silent_and_changes_nothing() -> None:
    register_all()
    before = dict(gym.registry)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register_all()
    assert gym.registry == before
    assert all(gym.registry[name] is before[name] for name in before)


def test_an_id_of_the_user_is_left_alone() -> None:
    gym.registry["remote/CartPole-v1"] = mine = EnvSpec("remote/CartPole-v1", "acme:Env")
    register_all()
    assert gym.registry["remote/CartPole-v1"] is mine


def test_register_makes_an_id_for_a_target() -> None:
    register(
        "acme/Maze-v0",
        "acme.envs:MazeEnv",
        max_episode_steps=9,
        reward_threshold=1.5,
        nondeterministic=True,
        kwargs={"size": 3},
    )
    spec = gym.spec("acme/Maze-v0")
    assert spec.kwargs == {"size": 3, "target": "acme.envs:MazeEnv", "time_limit": False}
    assert (spec.max_episode_steps, spec.reward_threshold, spec.nondeterministic) == (9, 1.5, True)
    assert EnvSpec.from_json(spec.to_json()) == spec


def test_register_again_is_allowed_for_the_same_thing_only() -> None:
    register("acme/Maze-v0", "acme.envs:MazeEnv")
    register("acme/Maze-v0", "acme.envs:MazeEnv")
    with pytest.raises(ConfigError, match="registered already"):
        register("acme/Maze-v0", "acme.envs:OtherEnv")
    with pytest.raises(ConfigError, match="registered already"):
        register("CartPole-v1", "acme.envs:OtherEnv")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"id": "a/b/c-v0", "target": "acme:Env"}, "cannot be the id"),
        ({"id": "acme/Maze-v0", "target": ""}, "write a text such as"),
        ({"id": "acme/Maze-v0", "target": None}, "write a text such as"),
        ({"id": "acme/Maze-v0", "target": "acme:Env", "kwargs": {"time_limit": 3}}, "env_kwargs"),
    ],
)
def test_register_refuses_what_cannot_be(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        register(**arguments)


def _distribution(folder: Path, points: str) -> None:
    info = folder / "acme_points-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-points\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)


def test_other_packages_add_ids_by_entry_points(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _distribution(
        tmp_path, "[openenv_gym.envs]\nAcme-v0 = acme_points:Env\nacme/Maze-v2 = acme_points.maze:Maze\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    register_all()
    assert kwargs("openenv/Acme-v0") == {"target": "acme_points:Env", "time_limit": False}
    assert kwargs("acme/Maze-v2") == {"target": "acme_points.maze:Maze", "time_limit": False}
    assert "acme_points" not in sys.modules


def test_an_entry_point_that_is_no_id_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _distribution(tmp_path, "[openenv_gym.envs]\nno id = acme_points:Env\nacme/Left-v0 = acme_points:Left\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(UserWarning, match=r"'no id' of acme-points cannot be an id: Malformed environment ID"):
        register_all()
    assert kwargs("acme/Left-v0") == {"target": "acme_points:Left", "time_limit": False}


def test_entry_points_of_other_groups_cost_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _distribution(tmp_path, "[console_scripts]\nacme = acme_points:main\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: pytest.fail("read all metadata"))
    register_all()


def test_the_import_itself_reads_no_metadata() -> None:
    code = (
        "import gymnasium, sys; before = 'importlib.metadata' in sys.modules; import openenv_gym;"
        " print(not before and 'importlib.metadata' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert done.stderr == ""


def test_the_public_functions_are_these() -> None:
    assert openenv_gym.register is register
    assert openenv_gym.mirror is mirror


def _fresh(code: str) -> list[str]:
    """Return what ``code`` prints, a word a line, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


IDS = "print(*('openenv/Echo-v0' in gymnasium.registry, 'remote/CartPole-v1' in gymnasium.registry))"


@pytest.mark.parametrize(
    "imports",
    [
        "import openenv_gym; import gymnasium",
        "import gymnasium; import openenv_gym",
        "import openenv_gym; import gymnasium.spaces; import gymnasium",
        "import openenv_gym.registration; import gymnasium",
        "import openenv_gym; openenv_gym.mirror(); import gymnasium",
    ],
)
def test_ids_are_there_whichever_is_imported_first(imports: str) -> None:
    assert _fresh(f"{imports}; {IDS}") == ["True", "True"]


def test_gymnasium_is_imported_by_its_own_loader_and_nobody_else_notices() -> None:
    code = (
        "import sys; before = list(sys.meta_path); import openenv_gym, gymnasium;"
        " print(sys.meta_path == before, 'exec_module' in vars(gymnasium.__spec__.loader))"
    )
    assert _fresh(code) == ["True", "False"]


def test_a_gymnasium_that_cannot_be_imported_says_so_each_time(tmp_path: Path) -> None:
    (tmp_path / "gymnasium.py").write_text("raise RuntimeError('broken')\n")
    code = (
        f"import sys, openenv_gym; sys.path.insert(0, {str(tmp_path)!r})\n"
        "for _ in range(2):\n"
        "    try:\n        import gymnasium\n    except RuntimeError as exc:\n        print(exc)\n"
        f"sys.path.remove({str(tmp_path)!r}); import gymnasium; {IDS}"
    )
    assert _fresh(code) == ["broken", "broken", "True", "True"]


def test_the_import_alone_imports_neither_gymnasium_nor_numpy() -> None:
    code = "import sys, openenv_gym; print('gymnasium' in sys.modules, 'numpy' in sys.modules)"
    assert _fresh(code) == ["False", "False"]
