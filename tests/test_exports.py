"""What the package offers is what it says, and offering it costs no heavy import."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module

import pytest

import openenv_gym
from tests.tree import ROOT, parse, sources

PUBLIC = [
    "Action",
    "Array",
    "CallToolAction",
    "CallToolObservation",
    "EnvClient",
    "Environment",
    "GenericAction",
    "GenericEnvClient",
    "ListToolsAction",
    "ListToolsObservation",
    "MCPToolClient",
    "Observation",
    "OpenEnvError",
    "RemoteEnv",
    "Rubric",
    "State",
    "StepResult",
    "SyncEnvClient",
    "Tool",
    "TypedEnv",
    "__version__",
    "create_app",
    "errors",
    "mirror",
    "register",
    "spaces",
    "tool",
]

HEAVY = [
    "Box2D",
    "ale_py",
    "asyncio.base_events",
    "docker",
    "httptools",
    "huggingface_hub",
    "jsonschema",
    "mujoco",
    "pygame",
    "starlette",
    "torch",
    "uvicorn",
    "uvloop",
    "websockets",
]


def test_public_names_are_exactly_these() -> None:
    assert openenv_gym.__all__ == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_resolves_and_is_listed(name: str) -> None:
    assert getattr(openenv_gym, name) is getattr(openenv_gym, name)
    assert name in dir(openenv_gym)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'openenv_gym' has no attribute 'RemoteEnvv'"):
        _ = openenv_gym.RemoteEnvv


def test_type_checkers_are_told_the_same_names() -> None:
    tree = parse(sources()["openenv_gym"])
    (block,) = [
        node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    ]
    told = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert told == set(PUBLIC) - {"__version__"}


def _exports(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return None


def _public_definitions(tree: ast.Module) -> set[str]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return {node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")}


@pytest.mark.parametrize("name", [name for name in sources() if name != "openenv_gym"])
def test_module_lists_what_it_defines(name: str) -> None:
    tree = parse(sources()[name])
    listed = _exports(tree)
    defined = _public_definitions(tree)
    if not defined and listed is None:
        return
    assert listed is not None, f"{name} defines {sorted(defined)} and has no __all__"
    assert len(listed) == len(set(listed))
    assert defined <= set(listed), "a public name is missing in __all__; list it or give it an underscore"
    module = import_module(name)
    assert [entry for entry in listed if not hasattr(module, entry)] == []


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = f"import sys, gymnasium; before = set(sys.modules); import openenv_gym; heavy = set({HEAVY!r})\n"
    code += "print(sorted((set(sys.modules) - before) & heavy))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""
