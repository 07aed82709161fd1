"""A trainer that forks: ``python -m tests.faults.forking URL FOLDER TIMES``.

Each child uses the env that it inherited, and ends in one of several ways; the parent goes on stepping. Exits
with a complaint when the parent's session takes notice, or a child's use of it does anything but fail.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import gymnasium as gym

from openenv_gym.env import RemoteEnv
from openenv_gym.errors import EnvClosedError, OpenEnvError, ResetNeededError, SessionLostError
from tests.support.faultenvs import notes

__all__ = ["main"]


def _fails(work: Callable[[], object], *kinds: type[OpenEnvError]) -> None:
    try:
        result = work()
    except kinds:
        return
    raise AssertionError(f"it returned {result!r}")


def _step(env: RemoteEnv) -> None:
    _fails(lambda: env.step(0), SessionLostError)
    _fails(lambda: env.step(0), ResetNeededError)


def _reset(env: RemoteEnv) -> None:
    if env.reset()[1] != {"total": 0} or env.step(0)[4] != {"total": 1}:
        raise AssertionError("the child's session is not a new one")
    env.close()


def _close(env: RemoteEnv) -> None:
    env.close()
    _fails(lambda: env.step(0), EnvClosedError)


def _exit(env: RemoteEnv) -> None:
    sys.exit(0)  # with all that an interpreter does at its end


def _die(env: RemoteEnv) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


_CHILDREN = (_step, _reset, _close, _exit, _die)


def _child(use: Callable[[RemoteEnv], None], env: RemoteEnv) -> None:
    try:
        use(env)
    except SystemExit:
        raise
    except BaseException as exc:
        sys.stderr.write(f"{use.__name__}: {exc!r}\n")
        os._exit(1)
    os._exit(0)


def main(url: str, folder: str, times: int) -> None:
    """Fork, step, and compare."""
    path = f"{folder}/parent"
    env = RemoteEnv(base_url=url, path=path)
    env.reset()
    steps = 0
    for number in range(times):
        use = _CHILDREN[number % len(_CHILDREN)]
        pid = os.fork()
        if pid == 0:
            _child(use, env)
        for _ in range(5):
            steps += 1
            if env.step(0)[4] != {"total": steps}:
                raise AssertionError("the parent's session took notice")
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code != (-signal.SIGKILL if use is _die else 0):
            raise AssertionError(f"{use.__name__} ended with {code}")
        steps += 1
        env.step(0)
    env.close()
    resets = sum(_CHILDREN[number % len(_CHILDREN)] is _reset for number in range(times))
    marks = notes(path)
    if (marks.count("s"), marks.count("c")) != (steps + resets, 1 + resets):
        raise AssertionError(f"{steps} steps were acknowledged, {marks.count('s')} executed")


if __name__ == "__main__":
    gym.logger.min_level = gym.logger.ERROR
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
