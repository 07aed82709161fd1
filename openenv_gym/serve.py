"""The command ``python -m openenv_gym.serve TARGET``: serve an environment."""

from __future__ import annotations

import argparse
import difflib
import importlib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from .errors import ConfigError, OpenEnvError

__all__ = ["main"]

_ABOUT = """\
Serve an environment to training processes and agents, on this machine or others.

TARGET is, in this order:
  a bundled environment    echo
  a Gymnasium id           CartPole-v1, or ale_py:ALE/Pong-v5 to import ale_py first
  an import string         mypackage.mymodule:MyEnv, a gymnasium.Env class or a function that returns one
  a path                   envs/my_env.py, envs/my_env.py:MyEnv, or a folder that is a package
Ids of remote environments (openenv/Echo-v0, remote/CartPole-v1) stand for what they lead to.
"""

_MORE = """\
Each option can also be set by the environment variable in parentheses; [] has the default. Times are
seconds, and "none" lifts a limit. Options win over variables.

examples:
  python -m openenv_gym.serve echo
  python -m openenv_gym.serve CartPole-v1 --uds cartpole.sock
  python -m openenv_gym.serve ale_py:ALE/Pong-v5 --port 0 --workers 4
  python -m openenv_gym.serve mypackage.mymodule:MyEnv --env-kwargs '{"size": 8}' --sessions-per-worker 1
  OPENENV_TOKEN=... python -m openenv_gym.serve echo --host 0.0.0.0

A client then says:
  gym.make("openenv/Remote-v0", base_url="ws://127.0.0.1:8000")

exit codes: 0 stopped by a signal or idle; 1 the environment or the address is not to be had; 2 wrong options
"""


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (--help shows all options)\n")

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """End the program because of arguments that it does not know."""
        name = unknown[0].partition("=")[0]
        known = [option for action in self._actions for option in action.option_strings]
        close = difflib.get_close_matches(name, known, n=1) if name.startswith("-") else []
        hint = f"; did you mean {close[0]}?" if close else ""
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")


def _parser(options: Any) -> _Parser:
    parser = _Parser(
        prog="python -m openenv_gym.serve",
        usage="%(prog)s TARGET [options]",
        description=_ABOUT,
        epilog=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("target", metavar="TARGET", help="what to serve; see above")
    options.add_options(parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve an environment until a signal comes.

    Args:
        arguments: The command line without the program; ``None``: that of this process.

    Returns:
        The exit code: 0 after a signal, 1 when the server could not run. Wrong options exit with 2.
    """
    options = importlib.import_module("openenv_gym.servers.options")
    parser = _parser(options)
    known, unknown = parser.parse_known_args(arguments)
    if unknown:
        parser.refuse(unknown)
    given = vars(known)
    target = given.pop("target")
    try:
        settings = options.settings_from_text(given)
        settings.check_exposure()
    except ConfigError as exc:
        parser.error(exc.message)
    try:
        code: int = importlib.import_module("openenv_gym.servers.run").run(settings, target)
    except OpenEnvError as exc:
        print(f"{parser.prog}: error: {exc.message}", file=sys.stderr)
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
