"""What a child interpreter inherits from this one: module search path and warning filters."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import sys
import warnings
from typing import Any

from ..errors import StartupError

__all__ = ["FILTERS", "apply_filters", "command", "filters_text"]

#: Environment variable that carries the warning filters of the user's process to its servers' workers.
FILTERS = "OPENENV_WARNING_FILTERS"

_BOOT = "import json,sys; a=json.loads(sys.argv[1]); sys.path[:]=a['path']; import importlib; \
sys.exit(importlib.import_module(a['module']).main(a['arguments']))"


def command(module: str, arguments: list[str]) -> list[str]:
    """Return the command line that runs ``module.main(arguments)`` with this interpreter and search path.

    Raises:
        StartupError: Nobody knows which program this interpreter is.
    """
    if not sys.executable:
        raise StartupError(
            "sys.executable does not say which program runs Python here, so none can be started for a server;"
            " set it, or use provider='inprocess' or a server that runs already (base_url=)"
        )
    boot = {
        "path": _search_path(),
        "module": module,
        "arguments": arguments,
    }
    return [sys.executable, *_flags(), "-c", _BOOT, json.dumps(boot)]


def _search_path() -> list[str]:
    """Return what there is of ``sys.path`` for another process."""
    entries = [os.fsdecode(entry) for entry in sys.path if isinstance(entry, str | bytes)]
    with contextlib.suppress(FileNotFoundError):  # the current folder was removed
        return [os.path.abspath(entry) for entry in entries]
    return [entry for entry in entries if os.path.isabs(entry)]


def filters_text() -> str:
    """Return this process's warning filters as a text for :data:`FILTERS`."""
    found: list[Any] = list(warnings.filters)
    return json.dumps(
        [
            [action, _pattern(message), f"{kind.__module__}:{kind.__qualname__}", _pattern(module), line]
            for action, message, kind, module, line in found
        ]
    )


def apply_filters() -> None:
    """Take over the warning filters that :data:`FILTERS` holds, if it is set.

    A filter for a category whose module is not imported (yet) is left out, since importing it here could
    cost seconds; call this again after imports.
    """
    text = os.environ.get(FILTERS)
    if not text:
        return
    warnings.resetwarnings()
    for action, message, category, module, line in json.loads(text):
        kind = _category(category)
        if kind is not None:
            warnings.filterwarnings(action, message, kind, module, line, append=True)


def _flags() -> list[str]:
    flags = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
    return [*flags, *(["-X", "dev"] if sys.flags.dev_mode else [])]


def _pattern(value: str | re.Pattern[str] | None) -> str:
    """Return the regular expression of a filter; the interpreter's own filters hold plain texts."""
    if value is None:
        return ""
    return value.pattern if isinstance(value, re.Pattern) else re.escape(value) + r"\Z"


def _category(name: str) -> Any:
    module, _, qualname = name.partition(":")
    found: Any = importlib.import_module(module) if module == "builtins" else sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, Warning) else None
