"""Modules of users: whether they exist, without importing them; loading them from files; what is in them."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym

from openenv_gym.errors import ConfigError

__all__ = [
    "absolute",
    "accepts",
    "attribute",
    "exists",
    "is_dotted",
    "load_path",
    "names",
    "only_env",
    "split_path",
]


def is_dotted(name: str) -> bool:
    """Return whether ``name`` is a name, or names with dots between them, as Python writes them."""
    return all(part.isidentifier() for part in name.split("."))


def exists(name: str) -> bool:
    """Return whether the module ``name`` can be found. Nothing is imported, packages around it neither."""
    if not is_dotted(name):
        return False
    path: Any = None
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        part = ".".join(parts[:count])
        if part in sys.modules:
            path = getattr(sys.modules[part], "__path__", None)
        else:
            spec = _find(part, path)
            if spec is None:
                return False
            path = spec.submodule_search_locations
        if path is None:
            return count == len(parts)
    return True


def _find(name: str, path: Any) -> Any:
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, path)
        except (ImportError, KeyError):  # KeyError: a namespace package inside one that is not imported
            continue
        if spec is not None:
            return spec
    return None


def absolute(text: str) -> str:
    """Return ``path`` or ``path:Name`` with the path made absolute; text that is no path as it is."""
    path, name = split_path(text)
    if path is None:
        return text
    return f"{path}:{name}" if name else str(path)


def split_path(text: str) -> tuple[Path | None, str]:
    """Return the absolute path of an existing folder or Python file, and the name after its colon."""
    head, colon, tail = text.rpartition(":")
    choices = [(text, "")]
    if colon and is_dotted(tail):
        choices.append((head, tail))
    for path, name in choices:
        place = Path(path).expanduser() if path else None
        if place is not None and (place.is_dir() or (place.is_file() and place.suffix == ".py")):
            return place.resolve(), name
    return None, ""


def load_path(path: Path) -> ModuleType:
    """Import a Python file, or a folder that is a package; what lies beside it can be imported too.

    Raises:
        ConfigError: The folder is no package, or another module of its name is imported already.
    """
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    name = path.stem if path.is_file() else path.name
    where = path if path.is_file() else path / "__init__.py"
    if not where.is_file():
        raise ConfigError(f"the folder {path} has no __init__.py, so it is no package; name a file in it")
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(where):
        return known
    if known is None and name.isidentifier() and name not in sys.stdlib_module_names:
        module = importlib.import_module(name)
        if getattr(module, "__file__", None) == str(where):
            return module
    if path.is_dir():
        raise ConfigError(f"another module is called {name!r}; rename the folder {path}")
    return _load_file(where, f"_served_{name}")


def _load_file(path: Path, name: str) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def attribute(module: ModuleType, name: str) -> Callable[..., Any]:
    """Return the class or factory that is called ``name`` in ``module``.

    Raises:
        ConfigError: There is none.
    """
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            close = difflib.get_close_matches(part, [item for item in dir(value) if not item.startswith("_")])
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
            if module.__name__ == "__main__":
                hint = "; the server is a program of its own: put it into a file, and name that"
            raise ConfigError(f"{module.__name__!r} has no {name!r}{hint}")
        value = getattr(value, part)
    if not callable(value):
        raise ConfigError(
            f"{module.__name__}:{name} is a {type(value).__name__}; name an environment class, "
            "or a function that returns an environment"
        )
    return value  # type: ignore[no-any-return]


def only_env(module: ModuleType) -> Callable[..., Any]:
    """Return the one environment class that ``module`` defines.

    Raises:
        ConfigError: It defines none, or several.
    """
    found = {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, gym.Env)
        and not name.startswith("_")
        and (value.__module__ + ".").startswith(module.__name__ + ".")
    }
    if len(found) != 1:
        names = ", ".join(sorted(found))
        what = f"defines several environments ({names})" if found else "defines no gymnasium.Env"
        raise ConfigError(f"{module.__file__} {what}; add the one to serve, as in path:ClassName")
    return found.popitem()[1]


def names(creator: Callable[..., Any], name: str) -> bool:
    """Return whether the signature of ``creator`` names an argument ``name``."""
    try:
        return name in inspect.signature(creator).parameters
    except (TypeError, ValueError):
        return False


def accepts(creator: Callable[..., Any], name: str) -> bool:
    """Return whether ``creator`` can be called with an argument ``name``, as far as its signature says."""
    try:
        parameters = inspect.signature(creator).parameters
    except (TypeError, ValueError):
        return True
    return name in parameters or any(item.kind is item.VAR_KEYWORD for item in parameters.values())
