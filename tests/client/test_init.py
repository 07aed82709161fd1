"""What is imported for a typed client."""

from __future__ import annotations

import subprocess
import sys

import pytest

import openenv_gym.client as package


@pytest.mark.parametrize("name", package.__all__)
def test_typed_clients_are_there(name: str) -> None:
    assert getattr(package, name).__name__ == name


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'EnvKlient'"):
        _ = package.EnvKlient


def test_typed_clients_need_neither_numpy_nor_gymnasium_nor_asyncio() -> None:
    code = (
        "import sys; from openenv_gym.client import *; import openenv_gym.client as c;"
        " [getattr(c, name) for name in c.__all__];"
        " print(*sorted({'numpy', 'gymnasium', 'asyncio', 'websockets', 'ssl', 'inspect'} & set(sys.modules)"
        " - {'inspect'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
