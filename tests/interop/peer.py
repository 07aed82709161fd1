"""Servers and scripts of the openenv package, which lives in a virtual environment of its own."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

__all__ = ["KINDS", "PACKAGES", "peer_serving", "run_theirs", "versions"]

HERE = Path(__file__).parent
#: The newest; what it is written for is the third generation of fastmcp.
PACKAGES = ("openenv", "fastmcp>=3,<4")
KINDS = ("probe", "solo", "broken", "tools", "closed")
"""Environments of ``theirs.py``."""


def versions(python: Path) -> dict[str, str]:
    """Return the versions of the packages that matter."""
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    names = ("openenv", "fastmcp", "mcp", "pydantic")
    command = [str(python), "-c", code, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return dict(zip(names, done.stdout.split(), strict=True))


@contextlib.contextmanager
def peer_serving(python: Path, *kinds: str, **environ: str) -> Iterator[dict[str, str]]:
    """Serve environments of ``theirs.py``; yields their base URLs by kind.

    Args:
        python: The interpreter of the virtual environment.
        kinds: Which ones.
        environ: More environment variables.
    """
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in kinds]
        urls = [f"http://127.0.0.1:{listener.getsockname()[1]}" for listener in listeners]
        descriptors = [listener.fileno() for listener in listeners]
        pairs = [text for kind, fd in zip(kinds, descriptors, strict=True) for text in (kind, str(fd))]
        server = subprocess.Popen(
            [str(python), str(HERE / "theirs.py"), *pairs],
            env=_environ() | environ,
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=HERE,
        )
    try:
        for url in urls:
            _wait(server, url)
        yield dict(zip(kinds, urls, strict=True))
    finally:
        server.kill()
        server.wait()


def run_theirs(python: Path, script: str, *arguments: str, timeout: float = 240.0) -> str:
    """Run a script of this folder in the virtual environment and return what it printed.

    Raises:
        AssertionError: It failed; the message has the end of its output.
    """
    done = subprocess.run(
        [str(python), str(HERE / script), *arguments],
        env=_environ(),
        cwd=HERE,
        timeout=timeout,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{script}: {(done.stdout + done.stderr)[-6000:]}"
    return done.stdout


def _environ() -> dict[str, str]:
    left_out = ("PYTHONPATH", "OPENENV_MODE", "OPENENV_CLIENT_MODE", "ENABLE_WEB_INTERFACE")
    return {name: value for name, value in os.environ.items() if name not in left_out}


def _wait(server: subprocess.Popen[bytes], base_url: str) -> None:
    end = time.monotonic() + 120
    while True:
        assert server.poll() is None, f"the server ended with {server.returncode}"
        try:
            with urllib.request.urlopen(f"{base_url}/health", timeout=30):
                return
        except OSError:
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.05)
