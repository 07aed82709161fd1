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
    from .asgi import create_app as create_app
    from .client import EnvClient as EnvClient
    from .client import GenericAction as GenericAction
    from .client import GenericEnvClient as GenericEnvClient
    from .client import MCPToolClient as MCPToolClient
    from .client import SyncEnvClient as SyncEnvClient
    from .env import RemoteEnv as RemoteEnv
    from .environment import Environment as Environment
    from .errors import OpenEnvError as OpenEnvError
    from .models import Action as Action
    from .models import Array as Array
    from .models import CallToolAction as CallToolAction
    from .models import CallToolObservation as CallToolObservation
    from .models import ListToolsAction as ListToolsAction
    from .models import ListToolsObservation as ListToolsObservation
    from .models import Observation as Observation
    from .models import State as State
    from .models import StepResult as StepResult
    from .models import Tool as Tool
    from .registration import mirror as mirror
    from .registration import register as register
    from .rubrics import Rubric as Rubric
    from .tools import tool as tool
    from .typed_env import TypedEnv as TypedEnv

__all__ = [
    "Action",
    "Array",
    "CallToolAction",
    "CallToolObservation",
    "EnvClient",
    "Environment",
    "GenericAction",
    "GenericEnvClient",
    "ListToolsAction",
    "ListToolsObservation",
    "MCPToolClient",
    "Observation",
    "OpenEnvError",
    "RemoteEnv",
    "Rubric",
    "State",
    "StepResult",
    "SyncEnvClient",
    "Tool",
    "TypedEnv",
    "__version__",
    "create_app",
    "errors",
    "mirror",
    "register",
    "spaces",
    "tool",
]
__version__ = "0.1.0"

# In a source checkout three sub-packages sit beside this folder, not in it.
_checkout = Path(__file__).resolve().parent.parent
if (_checkout / "setup.cfg").is_file():
    __path__.append(str(_checkout))

_WHERE = {
    "Environment": "environment",
    "OpenEnvError": "errors",
    "RemoteEnv": "env",
    "Rubric": "rubrics",
    "TypedEnv": "typed_env",
    "create_app": "asgi",
    "mirror": "registration",
    "register": "registration",
    "tool": "tools",
    **dict.fromkeys(("EnvClient", "GenericAction", "GenericEnvClient"), "client"),
    **dict.fromkeys(("MCPToolClient", "SyncEnvClient"), "client"),
    **dict.fromkeys(("Action", "Array", "Observation", "State", "StepResult", "Tool"), "models"),
    **dict.fromkeys(("CallToolAction", "CallToolObservation"), "models"),
    **dict.fromkeys(("ListToolsAction", "ListToolsObservation"), "models"),
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
