"""The task API passes questions on, and says what is wrong with them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.applications import Starlette

from openenv_gym.errors import OpenEnvError
from openenv_gym.protocol import messages as m
from openenv_gym.servers.openenv.about import About
from openenv_gym.servers.openenv.http import failure
from openenv_gym.servers.openenv.tasks import TaskRoutes
from openenv_gym.servers.targets import resolve

from ..wire import run
from .fakeworker import FakePool, Web, instead

_SPLITS = ["train", "hard", {"name": "mine", "type": "test", "size": 3}]


def _provider(request: m.Ask) -> Any:
    arguments = request.arguments
    match request.topic:
        case "metadata":
            said: Any = {"name": "Game"}
        case "tasks/splits":
            said = _SPLITS
        case "tasks/count":
            said = 2
        case "tasks/get" if arguments["index"] > 1:
            details = {"type": "IndexError", "traceback": "..."}
            return m.Error("environment", "IndexError: 2 tasks", request.id, True, details)
        case "tasks/get" if arguments["index"] < 0:
            return m.Error("environment", "KeyError: odd", request.id, True, {"type": "KeyError"})
        case _:
            said = [request.topic, arguments]
    return m.Value(request.id, [said])


def _unable(request: m.Ask) -> Any:
    if request.topic == "metadata":
        return m.Value(request.id, [{"name": "Game"}])
    return m.Error("unsupported", "Game has no tasks", request.id, True)


def _story(tell: Callable[[Web], Awaitable[None]], answer: Any = _provider) -> None:
    async def failed(request: Any, exc: Exception) -> Any:
        assert isinstance(exc, OpenEnvError)
        return failure(exc, "body")

    async def main() -> None:
        pool = FakePool(instead(m.Ask, answer))
        about = About(pool, pool.settings, resolve("CartPole-v1"))  # type: ignore[arg-type]
        routes = TaskRoutes(pool, pool.settings, about).routes()  # type: ignore[arg-type]
        async with Web(Starlette(routes=routes, exception_handlers={OpenEnvError: failed})) as web:
            await tell(web)
        await pool.settle()
        assert pool.living == {}

    run(main)


def test_the_environment_is_listed() -> None:
    async def tell(web: Web) -> None:
        assert (await web.get("/list_environments")).json() == ["Game"]

    _story(tell)


def test_splits_are_objects_with_a_name_and_a_type() -> None:
    async def tell(web: Web) -> None:
        assert (await web.get("/game/splits")).json() == [
            {"name": "train", "type": "train"},
            {"name": "hard", "type": "validation"},
            _SPLITS[2],
        ]

    _story(tell)


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (
            "tasks",
            {"split": "train"},
            {"tasks": ["tasks/list", {"split": "train"}], "env_name": "Game"},
        ),
        ("num_tasks", {"split": "train"}, {"num_tasks": 2}),
        ("task", {"split": "train", "index": 1}, {"task": ["tasks/get", {"split": "train", "index": 1}]}),
        (
            "task_range",
            {"split": "train", "start": 1, "stop": 3},
            {"tasks": ["tasks/range", {"split": "train", "start": 1, "stop": 3}]},
        ),
        (
            "task_range",
            {"split": "train", "start": None},
            {"tasks": ["tasks/range", {"split": "train"}]},
        ),
    ],
)
def test_a_question_is_passed_on(path: str, body: Any, said: Any) -> None:
    async def tell(web: Web) -> None:
        answer = await web.post(f"/Game/{path}", json=body)
        assert (answer.status_code, answer.json()) == (200, said)

    _story(tell)


@pytest.mark.parametrize(
    ("path", "body", "loc"),
    [
        ("tasks", {}, "split"),
        ("tasks", {"split": 3}, "split"),
        ("tasks", {"split": "train", "n": 1}, "n"),
        ("task", {"split": "train"}, "index"),
        ("task", {"split": "train", "index": True}, "index"),
        ("task", {"split": "train", "index": 2}, "index"),
        ("task_range", {"split": "train", "stop": "3"}, "stop"),
    ],
)
def test_what_is_wrong_with_a_question_is_named(path: str, body: Any, loc: str) -> None:
    async def tell(web: Web) -> None:
        answer = await web.post(f"/Game/{path}", json=body)
        assert answer.status_code == 422
        assert answer.json()["detail"][0]["loc"] == ["body", loc]

    _story(tell)


def test_an_environment_that_raises_is_an_error_of_the_server() -> None:
    async def tell(web: Web) -> None:
        answer = await web.post("/Game/task", json={"split": "train", "index": -1})
        assert (answer.status_code, answer.json()["code"]) == (500, "environment")

    _story(tell)


def test_an_environment_without_tasks_says_so() -> None:
    async def tell(web: Web) -> None:
        assert (await web.get("/list_environments")).status_code == 200
        answers = [await web.get("/Game/splits"), await web.post("/Game/num_tasks", json={"split": "train"})]
        for answer in answers:
            assert (answer.status_code, answer.json()["code"]) == (501, "unsupported")

    _story(tell, _unable)


def test_another_name_is_not_found() -> None:
    async def tell(web: Web) -> None:
        answer = await web.get("/Chess/splits")
        assert answer.status_code == 404
        assert "'Game'" in answer.text

    _story(tell)
