"""Remote Gymnasium environments.

Importing this registers ``openenv/...`` and ``remote/...`` ids with Gymnasium and nothing else: server, web
and environment libraries are imported when they are needed, and so is Gymnasium.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .registration import register_with_gymnasium as _register_with_gymnasium

if TYPE_CHECKING:
    from . import errors as errors
    from . import spaces as spaces
    from .env import RemoteEnv as RemoteEnv
    from .errors import OpenEnvError as OpenEnvError
    from .registration import mirror as mirror
    from .registration import register as register

__all__ = ["OpenEnvError", "RemoteEnv", "__version__", "errors", "mirror", "register", "spaces"]
__version__ = "0.1.0"

# In a source checkout three sub-packages sit beside this folder, not in it.
_checkout = Path(__file__).resolve().parent.parent
if (_checkout / "setup.cfg").is_file():
    __path__.append(str(_checkout))

_WHERE = {
    "OpenEnvError": "errors",
    "RemoteEnv": "env",
    "mirror": "registration",
    "register": "registration",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f".{_WHERE[name]}", __name__), name)
    if name in __all__:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_register_with_gymnasium()
