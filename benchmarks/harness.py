"""What the benchmarks share: servers on chosen cores, child processes, statistics, tables, bars."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = [
    "ROOT",
    "Bar",
    "cores",
    "machine",
    "medians",
    "peer_serving",
    "percentile",
    "progress",
    "report",
    "run_child",
    "serving",
    "stop",
    "table",
]

ROOT = Path(__file__).resolve().parent.parent
Cores = frozenset[int]


def cores() -> list[int]:
    """Return the cores this process may use."""
    return sorted(os.sched_getaffinity(0))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which ``share`` (0 to 1) of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    names = ("openenv-gym", "gymnasium", "numpy", "msgspec", "websockets", "uvicorn", "uvloop")
    versions = {}
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": len(cores()),
        "load": os.getloadavg()[0],
        **versions,
    }


@dataclass(frozen=True)
class Bar:
    """A number to reach.

    Attributes:
        name: What is measured.
        value: What came out.
        limit: What is asked for.
        at_least: Whether more is better.
    """

    name: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def passed(self) -> bool:
        """Whether the number was reached."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        return f"{'pass' if self.passed else 'MISS'}  {self.name}: {self.value:.3g} ({sign} {self.limit:g})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the rows as text in columns, the first one left-aligned."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            c.ljust(w) if n == 0 else c.rjust(w) for n, (c, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def report(title: str, figures: dict[str, Any], bars: Sequence[Bar], path: str | None) -> None:
    """Print the bars and, if asked, write everything as JSON."""
    print(f"\n{title}")
    for bar in bars:
        print(f"  {bar}")
    if path:
        done = {
            "machine": machine(),
            "figures": figures,
            "bars": [asdict(b) | {"passed": b.passed} for b in bars],
        }
        Path(path).write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")


def medians(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the median of each key over the runs."""
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def _placed(on: Sequence[int] | None) -> Callable[[], None]:
    def place() -> None:
        if on is not None:
            os.sched_setaffinity(0, on)

    return place


def _environment(changes: dict[str, str] | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENENV_")}
    path = os.pathsep.join(filter(None, (str(ROOT), kept.get("PYTHONPATH"))))
    return kept | {"PYTHONPATH": path} | (changes or {})


def run_child(
    args: Sequence[str],
    *,
    python: str = sys.executable,
    on: Sequence[int] | None = None,
    env: dict[str, str] | None = None,
    timeout: float = 300.0,
) -> Any:
    """Run ``python args`` on the given cores and return the JSON on the last line that it prints."""
    done = subprocess.run(
        [python, *args],
        cwd=ROOT,
        env=_environment(env),
        preexec_fn=_placed(on),
        stdout=subprocess.PIPE,
        timeout=timeout,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def serving(
    target: str,
    *options: str,
    unix: bool = False,
    on: Sequence[int] | None = None,
    env: dict[str, str] | None = None,
) -> Iterator[tuple[str, int]]:
    """Serve ``target`` in a process tree of its own on the given cores; give its ``base_url`` and pid."""
    with tempfile.TemporaryDirectory() as folder:
        place = ("--uds", str(Path(folder) / "s.sock")) if unix else ("--port", "0")
        reader, writer = os.pipe()
        command = [
            sys.executable,
            "-m",
            "openenv_gym.serve",
            target,
            *place,
            "--ready-fd",
            str(writer),
            *options,
        ]
        server = subprocess.Popen(
            command,
            cwd=ROOT,
            env=_environment({"OPENENV_LOG_LEVEL": "warning"} | (env or {})),
            preexec_fn=_placed(on),
            pass_fds=(writer,),
        )
        os.close(writer)
        try:
            yield _ready(reader)["base_url"], server.pid
        finally:
            os.close(reader)
            stop(server)


@contextlib.contextmanager
def peer_serving(python: str, script: str, on: Sequence[int] | None = None) -> Iterator[str]:
    """Run a server of ``benchmarks/peer_openenv`` by the interpreter that has its package; give its port."""
    command = [python, str(ROOT / "benchmarks" / "peer_openenv" / script)]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=_environment(None), preexec_fn=_placed(on)
    )
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        stop(server)
        server.stdout.close()


def progress(text: str) -> None:
    """Say on standard error what is being measured."""
    print(f"... {text}", file=sys.stderr, flush=True)


def stop(process: subprocess.Popen[Any], patience: float = 20.0) -> None:
    """End a server in order; kill it when it does not go."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _ready(reader: int, timeout: float = 60.0) -> dict[str, Any]:
    end, line = time.monotonic() + timeout, b""
    while not line.endswith(b"\n"):
        if not select.select([reader], [], [], max(0.0, end - time.monotonic()))[0]:
            raise TimeoutError(f"the server was not ready within {timeout} s")
        part = os.read(reader, 4096)
        if not part:
            raise RuntimeError("the server ended before it was ready; its errors are above")
        line += part
    announced: dict[str, Any] = json.loads(line)
    return announced
