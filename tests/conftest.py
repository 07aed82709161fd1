"""What every test runs under."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

IN_CI = os.environ.get("OPENENV_CI") == "1"

# The user's own client settings must not reach the tests, nor their screen.
for _name in [name for name in os.environ if name.startswith("OPENENV_")]:
    if _name not in ("OPENENV_CI", "OPENENV_HYPOTHESIS", "OPENENV_VENV"):
        del os.environ[_name]
# A shell's background jobs ignore Ctrl-C, and so would every server that a test sends it to.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
os.environ.setdefault("MUJOCO_GL", "egl")

settings.register_profile("default", derandomize=True, deadline=None, database=None, max_examples=60)
settings.register_profile("deep", parent=settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("OPENENV_HYPOTHESIS", "default"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fail-on-skip", action="store_true", default=IN_CI, help="A skipped test is a failed one."
    )
    parser.addoption(
        "--leak-patience",
        type=float,
        default=20.0,
        metavar="SECONDS",
        help="How long threads and child processes may take to end after their test (default: 20).",
    )


def _fail_if_skipped(report: Any, config: pytest.Config) -> None:
    if report.skipped and config.getoption("--fail-on-skip") and not hasattr(report, "wasxfail"):
        reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: skipped, which CI does not allow: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_if_skipped(report, item.config)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_if_skipped(report, collector.config)
    return report


def _threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.is_alive()}


def _children() -> set[int]:
    """Return the process ids of this process's children, zombies included (none without ``/proc``)."""
    found: set[int] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            found.update(int(pid) for pid in task.read_text().split())
    return found


def _remaining(now: Callable[[], set[Any]], before: set[Any], patience: float) -> set[Any]:
    deadline = time.monotonic() + patience
    while (left := now() - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


@pytest.fixture(autouse=True)
def _no_leaked_thread(pytestconfig: pytest.Config) -> Iterator[None]:
    """Fail a test that leaves a thread behind which would keep the interpreter from exiting."""

    def lasting() -> set[threading.Thread]:
        return {thread for thread in _threads() if not thread.daemon}

    before = lasting()
    yield
    left = _remaining(lasting, before, pytestconfig.getoption("--leak-patience"))
    assert not left, f"the test left threads running: {sorted(thread.name for thread in left)}"


@pytest.fixture
def no_leaks(pytestconfig: pytest.Config) -> Iterator[None]:
    """Fail a test that leaves any thread, child process or zombie behind."""
    patience = pytestconfig.getoption("--leak-patience")
    threads, children = _threads(), _children()
    yield
    left = _remaining(_threads, threads, patience)
    assert not left, f"the test left threads running: {sorted(thread.name for thread in left)}"
    pids = _remaining(_children, children, patience)
    assert not pids, f"the test left child processes: {sorted(pids)}"
