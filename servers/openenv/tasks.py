"""The task API (RFC 001 of OpenEnv): which tasks an environment has, by split and number."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from openenv_gym.errors import RemoteEnvironmentError, ValidationError

from ..settings import ServerSettings
from .about import About, visit
from .forms import check_fields, check_object
from .http import answer, read_body
from .text import write_json

if TYPE_CHECKING:
    from ..pool import Pool

__all__ = ["TaskRoutes"]

_KINDS = ("train", "validation", "test")
_SPLIT: dict[str, tuple[type, ...]] = {"split": (str,)}
_BOUND = (int, type(None))
#: By the last part of the path: the topic of the question, what the answer is called, types of the arguments.
_QUESTIONS: dict[str, tuple[str, str, dict[str, tuple[type, ...]]]] = {
    "tasks": ("tasks/list", "tasks", _SPLIT),
    "num_tasks": ("tasks/count", "num_tasks", _SPLIT),
    "task": ("tasks/get", "task", {**_SPLIT, "index": (int,)}),
    "task_range": ("tasks/range", "tasks", {**_SPLIT, "start": _BOUND, "stop": _BOUND}),
}


class TaskRoutes:
    """The routes of the task API.

    Args:
        pool: A session is opened for each question.
        settings: The server's settings.
        about: Knows the environment's name, which is part of the paths.
    """

    def __init__(self, pool: Pool, settings: ServerSettings, about: About) -> None:
        self._pool = pool
        self._settings = settings
        self._about = about

    def routes(self) -> list[Route]:
        """Return the routes; put them after all others, since their paths begin with a name."""
        return [
            Route("/list_environments", self._environments, methods=["GET"]),
            Route("/{env_name}/splits", self._splits, methods=["GET"]),
            *(Route(f"/{{env_name}}/{name}", self._asking(name), methods=["POST"]) for name in _QUESTIONS),
        ]

    async def _environments(self, request: Request) -> Response:
        return answer(write_json([await self._about.name()]))

    async def _splits(self, request: Request) -> Response:
        await self._check_name(request)
        splits = await self._ask("tasks/splits", {})
        return answer(write_json([_split(item) for item in splits]))

    def _asking(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        topic, result, fields = _QUESTIONS[name]

        async def ask(request: Request) -> Response:
            env_name = await self._check_name(request)
            body = check_object(await read_body(request, self._settings), "$", "the body")
            arguments = _arguments(body, fields)
            said = {result: await self._ask(topic, arguments)}
            if name == "tasks":
                said["env_name"] = env_name
            return answer(write_json(said))

        return ask

    async def _check_name(self, request: Request) -> str:
        name = await self._about.name()
        asked = request.path_params["env_name"]
        if asked.lower() != name.lower():
            raise HTTPException(404, f"there is no environment {asked[:80]!r} here, but {name!r}")
        return name

    async def _ask(self, topic: str, arguments: dict[str, Any]) -> Any:
        async with visit(self._pool, self._settings) as peer:
            try:
                return await peer.ask(topic, arguments)
            except RemoteEnvironmentError as exc:
                if exc.details.get("type") != "IndexError":
                    raise
                raise ValidationError(f"there is no such task: {exc.message}", path="$.index") from None


def _arguments(body: dict[str, Any], kinds: dict[str, tuple[type, ...]]) -> dict[str, Any]:
    """Return the arguments in a body, which are of these types; one that may be null may be left out."""
    check_fields(body, *kinds)
    for name, kind in kinds.items():
        value = body.get(name)
        if type(value) not in kind:
            wanted = " or ".join("null" if item is type(None) else item.__name__ for item in kind)
            raise ValidationError(f"{name!r} is {value!r:.80}; it must be {wanted}", path=f"$.{name}")
    return {name: body[name] for name in kinds if body.get(name) is not None}


def _split(split: Any) -> dict[str, Any]:
    """Return a split as an object with ``name`` and ``type``; providers may give just its name."""
    if isinstance(split, dict):
        return split
    name = str(split)
    return {"name": name, "type": name if name in _KINDS else "validation"}
