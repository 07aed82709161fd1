"""Virtual environments with RL libraries and notebooks, and runs of their scripts in them.

The folder is ``.venv-rl`` in the checkout, or the one that the environment variable ``RL_VENV`` names.
RLlib, which insists on a Gymnasium of its own, has one beside it, ``.venv-rl-ray``. Made once and then kept,
with this project installed in editable form.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["ROOT", "ensure_venv", "run"]

ROOT = Path(__file__).resolve().parents[2]
_TORCH = "torch==2.13.0"
_LIBRARIES = (
    "stable-baselines3==2.9.2",
    "sb3-contrib==2.9.2",
    "rl_zoo3==2.9.2",
    "nbclient==0.11.0",
    "ipykernel==7.4.0",
    "skrl==2.1.1",
    "tianshou==2.0.1",
    "torchrl==0.14.1",
)
_RAY = ("ray[rllib]==2.60.0",)


def ensure_venv(folder: Path | None = None, *, ray: bool = False) -> Path:
    """Return the interpreter of the virtual environment, or of that for RLlib; build what is missing.

    torch comes first and alone: as a dependency of the others pip could choose another build of it.

    Raises:
        subprocess.CalledProcessError: An installation failed; pip's output is on the screen.
    """
    folder = folder or Path(os.environ.get("RL_VENV") or ROOT / ".venv-rl")
    libraries = _LIBRARIES
    if ray:
        folder, libraries = folder.with_name(f"{folder.name}-ray"), _RAY
    python, stamp = folder / "bin" / "python", folder / "installed"
    wanted = " ".join((_TORCH, *libraries))
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        constraint = folder / "constraints.txt"
        constraint.write_text(f"{_TORCH}\n")
        _pip(python, _TORCH)
        _pip(python, "-c", str(constraint), *libraries)
        _pip(python, "-c", str(constraint), "-e", str(ROOT))
        stamp.write_text(wanted)
    return python


def run(python: Path, args: Sequence[str], cwd: Path, timeout: float = 280.0) -> str:
    """Run ``python args`` in the folder ``cwd`` and return what it printed.

    Raises:
        AssertionError: It failed; the message has the end of its output.
        subprocess.TimeoutExpired: It took longer than ``timeout`` seconds.
    """
    done = subprocess.run(
        [str(python), *args],
        cwd=cwd,
        # The test environments are part of the checkout, not of the installation.
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=timeout,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    output = (done.stdout + done.stderr)[-4000:]
    assert done.returncode == 0, f"{' '.join(args)} exited with {done.returncode}:\n{output}"
    return done.stdout


def _pip(python: Path, *args: str) -> None:
    options = ("--quiet", "--disable-pip-version-check", "--no-input")
    subprocess.run(
        [str(python), "-m", "pip", "install", *options, *args], check=True, stdin=subprocess.DEVNULL
    )


if __name__ == "__main__":
    print(ensure_venv())
