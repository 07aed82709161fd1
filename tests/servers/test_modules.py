"""Users' modules are found without importing them, and loaded from files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from openenv_gym.errors import ConfigError
from openenv_gym.servers import modules

ENV = """
import gymnasium
LOADED = []
class {name}(gymnasium.Env):
    pass
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the import path, forgotten with all its modules afterwards."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def _write(path: Path, text: str = "raise AssertionError('imported')") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_module_is_found_without_importing_anything(place: Path) -> None:
    _write(place / "outer_pkg" / "__init__.py")
    _write(place / "outer_pkg" / "inner" / "__init__.py")
    _write(place / "outer_pkg" / "inner" / "leaf.py")
    _write(place / "bare_ns" / "leaf.py")
    for name in (
        "outer_pkg",
        "outer_pkg.inner",
        "outer_pkg.inner.leaf",
        "bare_ns.leaf",
        "json.decoder",
        "sys",
    ):
        assert modules.exists(name), name
    assert not {name for name in sys.modules if name.startswith(("outer_pkg", "bare_ns"))}


@pytest.mark.parametrize(
    "name", ["", "no_such_module", "json.no_such", "json.decoder.x", "a-b", "./x", "x.py", "sys.x"]
)
def test_what_is_no_module_is_not_found(name: str) -> None:
    assert not modules.exists(name)


def test_a_path_and_the_name_behind_it(place: Path) -> None:
    file = _write(place / "my_env.py")
    assert modules.split_path(str(file)) == (file, "")
    assert modules.split_path(f"{file}:Env") == (file, "Env")
    assert modules.split_path(f"{place}:Env") == (place, "Env")
    assert modules.split_path(f"{file}x") == (None, "")
    assert modules.split_path(str(_write(place / "notes.txt"))) == (None, "")
    assert modules.split_path("") == (None, "")


def test_relative_paths_become_absolute(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _write(place / "my_env.py")
    monkeypatch.chdir(place)
    assert modules.absolute("my_env.py:Env") == f"{file}:Env"
    assert modules.absolute("CartPole-v1") == "CartPole-v1"


def test_a_file_is_imported_once_under_its_name_with_its_neighbours(place: Path) -> None:
    _write(place / "folder" / "neighbour_mod.py", "VALUE = 7")
    file = _write(place / "folder" / "served_env.py", "from neighbour_mod import VALUE")
    module = modules.load_path(file)
    assert (module.__name__, module.VALUE) == ("served_env", 7)
    assert modules.load_path(file) is module


def test_a_file_named_like_a_known_module_does_not_replace_it(place: Path) -> None:
    import json

    module = modules.load_path(_write(place / "json.py", "VALUE = 1"))
    assert module.VALUE == 1
    assert sys.modules["json"] is json
    assert modules.load_path(place / "json.py") is module


def test_a_folder_is_imported_as_a_package(place: Path) -> None:
    folder = _write(place / "deep" / "boxed_env" / "env.py", ENV.format(name="BoxedEnv")).parent
    _write(folder / "__init__.py", "from .env import BoxedEnv")
    assert modules.only_env(modules.load_path(folder)).__name__ == "BoxedEnv"


def test_a_folder_without_init_is_no_package(place: Path) -> None:
    (place / "plain").mkdir()
    with pytest.raises(ConfigError, match=r"no __init__\.py"):
        modules.load_path(place / "plain")


def test_a_folder_named_like_another_module_is_refused(place: Path) -> None:
    folder = _write(place / "email" / "__init__.py", "").parent
    with pytest.raises(ConfigError, match="another module is called 'email'"):
        modules.load_path(folder)


def test_a_file_that_fails_leaves_nothing_behind(place: Path) -> None:
    file = _write(place / "3d.py")
    with pytest.raises(AssertionError, match="imported"):
        modules.load_path(file)
    assert "_served_3d" not in sys.modules


def test_an_attribute_may_be_dotted_and_must_be_callable() -> None:
    import json

    assert modules.attribute(json, "decoder.JSONDecoder") is json.JSONDecoder
    with pytest.raises(ConfigError, match=r"no 'dumbs'; did you mean 'dumps'"):
        modules.attribute(json, "dumbs")
    with pytest.raises(ConfigError, match="is a list; name an environment class"):
        modules.attribute(json, "__all__")
    with pytest.raises(ConfigError, match="'__main__' has no 'MyEnv'; the server is a program of its own"):
        modules.attribute(sys.modules["__main__"], "MyEnv")


def test_the_only_environment_of_a_module(place: Path) -> None:
    both = ENV.format(name="OneEnv") + ENV.format(name="TwoEnv")
    with pytest.raises(ConfigError, match=r"several environments \(OneEnv, TwoEnv\)"):
        modules.only_env(modules.load_path(_write(place / "both_envs.py", both)))
    imported = "from gymnasium import Env, Wrapper\nclass _Hidden(Env): pass"
    with pytest.raises(ConfigError, match=r"defines no gymnasium\.Env"):
        modules.only_env(modules.load_path(_write(place / "none_env.py", imported)))


def test_whether_an_argument_is_accepted() -> None:
    assert modules.accepts(lambda render_mode: None, "render_mode")
    assert modules.accepts(lambda **kwargs: None, "render_mode")
    assert not modules.accepts(lambda size: None, "render_mode")
    assert modules.accepts(min, "render_mode")
