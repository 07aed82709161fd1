"""Public names of a remote environment, read, set and called as if it were here."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from ..errors import ForbiddenError, RemoteEnvironmentError
from ..protocol.messages import Call, Get, Set, State
from ..protocol.values import pack

__all__ = ["RemoteAttributes", "RemoteMethod"]

#: Public names that belong to the client although no class defines them.
_LOCAL = frozenset({"action_space", "observation_space", "metadata", "render_mode"})


class RemoteMethod:
    """A method of a remote environment.

    Calling it with values that have a form on the wire runs it there, at most once, and returns its result.
    """

    def __init__(self, owner: RemoteAttributes, name: str) -> None:
        self._owner = owner
        self.__name__ = name

    def __repr__(self) -> str:
        return f"<remote method {self.__name__} of {self._owner!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the method in the environment.

        Raises:
            RemoteEnvironmentError: It raised.
            ValueNotCarriedError: An argument or the result has no form on the wire.
        """
        name = self.__name__
        packed_args = [pack(value, f"{name}() argument {index}") for index, value in enumerate(args)]
        packed_kwargs = {key: pack(value, f"{name}({key})") for key, value in kwargs.items()}
        return self._owner._ask(Call, name, packed_args, packed_kwargs).values[0]


class RemoteAttributes:
    """Looks up public names that the class lacks in the remote environment, and sets them there."""

    @abstractmethod
    def _ask(self, kind: type, *args: Any) -> Any:
        """Send a request and return the reply."""

    def remote_state(self) -> dict[str, Any]:
        """Return the environment's own state: ``episode_id``, ``step_count`` and what else it keeps.

        Raises:
            UnsupportedError: The environment is a plain Gymnasium one, which has none.
        """
        state: dict[str, Any] = self._ask(State).values[0]
        return state

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        try:
            reply = self._ask(Get, name)
        except RemoteEnvironmentError as exc:
            if exc.details.get("type") != "AttributeError":
                raise
            raise AttributeError(
                f"neither {type(self).__name__!r} nor the remote environment has an attribute {name!r}"
            ) from exc
        except ForbiddenError as exc:
            raise AttributeError(f"no attribute {name!r}: {exc.message}") from exc
        return RemoteMethod(self, name) if reply.callable else reply.values[0]

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or name in _LOCAL or hasattr(type(self), name):
            object.__setattr__(self, name, value)
        else:
            self._ask(Set, name, [pack(value, name)])
