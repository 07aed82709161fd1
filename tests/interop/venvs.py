"""Virtual environments with the packages of other projects, apart from this one's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

__all__ = ["interpreter"]


def interpreter(variable: str, packages: Sequence[str], folder: Path) -> Path:
    """Return the interpreter of a virtual environment that has ``packages``.

    Args:
        variable: The environment variable that names it, if there is one already.
        packages: What is installed where there is none, which happens in CI only.
        folder: Where it is made.
    """
    named = os.environ.get(variable)
    if named:
        return Path(named) / "bin" / "python"
    if os.environ.get("OPENENV_CI") != "1":
        pytest.skip(f"{variable} names no virtual environment with {', '.join(packages)}")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    # Compiled are the modules that are used, when they are: these packages have thousands.
    options = ("--quiet", "--disable-pip-version-check", "--no-compile")
    install = [str(python), "-m", "pip", "install", *options, *packages]
    subprocess.run(install, check=True, stdin=subprocess.DEVNULL)
    return python
