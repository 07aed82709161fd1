"""The init of a container: signals go to the server, orphans are reaped, the exit code is the server's."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, os, signal, sys, time
from openenv_gym.servers.reaper import run_under_init

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # orphans come to this process, as to process 1
me = os.getpid()

def work():
{work}

code = run_under_init(work)
if os.getpid() == me:
    try:
        os.waitpid(-1, os.WNOHANG)
        print("children left")
    except ChildProcessError:
        print("nobody left")
sys.exit(code)
"""

OBEY = """
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    print("up", flush=True)
    while not stopped:
        time.sleep(0.01)
    return 7
"""

ORPHAN = """
    out, into = os.pipe()
    if os.fork() == 0:
        orphan = os.fork()
        if orphan:
            os.write(into, str(orphan).encode())
        os._exit(0)
    os.wait()
    orphan = int(os.read(out, 20))
    while os.path.exists(f"/proc/{orphan}"):
        time.sleep(0.01)
    return 0
"""


def _start(work: str) -> subprocess.Popen[str]:
    script = SCRIPT.replace("{work}", work.strip("\n"))
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)


def test_a_signal_reaches_the_server_whose_code_is_returned() -> None:
    with _start(OBEY) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "nobody left\n"
    assert process.returncode == 7


def test_a_signal_that_comes_early_waits_for_the_handler() -> None:
    early = "    os.kill(os.getppid(), signal.SIGTERM)\n    time.sleep(0.2)\n" + OBEY.strip("\n")
    with _start(early) as process:
        assert process.stdout is not None
        assert process.stdout.read() == "up\nnobody left\n"
    assert process.returncode == 7


def test_orphans_are_reaped() -> None:
    with _start(ORPHAN) as process:
        assert process.stdout is not None
        assert "nobody left" in process.stdout.read()
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_server_that_is_killed_gives_128_and_the_signal(number: int) -> None:
    with _start(f"    os.kill(os.getpid(), {int(number)})") as process:
        assert process.stdout is not None
        process.stdout.read()
    assert process.returncode == 128 + number
