"""An environment as an ASGI application."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

import openenv_gym
from openenv_gym.asgi import create_app
from openenv_gym.errors import CapacityError, ConfigError
from tests.support.typedenvs import GuessNumber, Hint, Solitary


@contextmanager
def _running(app: Any) -> Iterator[str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="websockets-sansio"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.mark.parametrize("workers", [0, 1])
def test_any_asgi_server_runs_it(workers: int) -> None:
    with _running(create_app(GuessNumber, workers=workers, env_name="guess")) as base_url:
        env = gym.make("openenv/Remote-v0", base_url=base_url)
        assert env.reset(seed=3)[0] == "between 1 and 100"
        assert env.step(50)[0] in ("more", "less", "that is it")
        env.close()


def test_it_answers_without_a_lifespan_and_where_it_is_mounted() -> None:
    app = create_app(GuessNumber)
    outer = Starlette(routes=[Mount("/guess", app)])
    with TestClient(outer, base_url="http://127.0.0.1") as client:
        assert client.get("/guess/health").json() == {"status": "healthy"}
        assert client.get("/guess/metadata").json()["name"] == "GuessNumber"


def _children() -> set[int]:
    """Return the processes that this one started."""
    lists = (path.read_text().split() for path in Path("/proc/self/task").glob("*/children"))
    return {int(pid) for pids in lists for pid in pids}


@pytest.mark.parametrize("workers", [0, 1])
def test_after_a_failed_start_the_next_request_tries_again(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module = tmp_path / f"t_asgi_late_{workers}.py"
    module.write_text("raise RuntimeError('the licence server is down')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    app = create_app(f"{module.stem}:GuessNumber", workers=workers)
    before = _children()
    with TestClient(Starlette(routes=[Mount("/guess", app)]), base_url="http://127.0.0.1") as client:
        for _ in range(2):
            answer = client.get("/guess/metadata")
            assert (answer.status_code, answer.json()["code"]) == (503, "startup")
            assert "the licence server is down" in answer.json()["message"]
            assert "Traceback" not in answer.text
        assert _children() == before
        assert caplog.text.count("Traceback") == 2
        module.write_text("from tests.support.typedenvs import GuessNumber\n")
        assert client.get("/guess/metadata").json()["name"] == "GuessNumber"
        client.portal.call(app.state.pool.drain, 1.0)  # type: ignore[union-attr]
    assert _children() == before


def test_a_module_that_exits_does_not_take_the_server_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t_asgi_exits.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    outer = Starlette(routes=[Mount("/guess", create_app("t_asgi_exits:Env"))])
    with TestClient(outer, base_url="http://127.0.0.1") as client:
        for _ in range(2):
            answer = client.get("/guess/capacity")
            assert answer.status_code == 503
            assert answer.json()["message"] == "t_asgi_exits:Env cannot be imported: SystemExit: 3"


def test_types_and_arguments_may_be_given() -> None:
    class Louder(Hint):
        loud: bool = True

    app = create_app(GuessNumber, None, Louder, env_kwargs={"highest": 7})
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert "loud" in client.get("/schema").json()["observation"]["properties"]


def test_a_full_server_is_full() -> None:
    with _running(create_app(GuessNumber, max_concurrent_envs=1)) as base_url:
        first = gym.make("openenv/Remote-v0", base_url=base_url)
        with pytest.raises(CapacityError):
            gym.make("openenv/Remote-v0", base_url=base_url)
        first.close()


def test_one_instance_in_a_process_is_one_session() -> None:
    with _running(create_app(Solitary)) as base_url:
        first = gym.make("openenv/Remote-v0", base_url=base_url)
        with pytest.raises(CapacityError, match="concurrency_safe"):
            gym.make("openenv/Remote-v0", base_url=base_url)
        first.close()
        gym.make("openenv/Remote-v0", base_url=base_url).close()


def test_what_other_processes_cannot_import_has_no_workers() -> None:
    class Local(GuessNumber):
        pass

    with pytest.raises(ConfigError, match="cannot be imported by another process"):
        create_app(Local, workers=1)
    with TestClient(create_app(Local), base_url="http://127.0.0.1") as client:
        assert client.get("/metadata").json()["name"] == "Local"


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        ((GuessNumber(),), {}, "class or a factory"),
        ((GuessNumber,), {"colour": 1}, "colour"),
        (("echo", Hint), {}, "go with a class"),
        ((GuessNumber,), {"host": "0.0.0.0"}, "insecure"),
    ],
)
def test_what_cannot_be_an_application_is_said(arguments: Any, options: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        create_app(*arguments, **options)


def test_it_answers_to_other_names_when_told_so() -> None:
    for options, status in (({}, 403), ({"insecure": True}, 200)):
        with TestClient(create_app(GuessNumber, **options), base_url="http://example.org") as client:
            assert client.post("/reset", json={}).status_code == status


def test_variables_are_read_and_arguments_go_over_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_MODE", "production")
    monkeypatch.setenv("OPENENV_MAX_SESSIONS", "3")
    monkeypatch.setenv("OPENENV_TOKEN", "secret")
    settings = create_app(GuessNumber, max_concurrent_envs=5).state.settings
    assert (settings.mode, settings.max_sessions, settings.workers) == ("production", 5, 0)
    assert (settings.token, settings.host) == ("secret", "0.0.0.0")
    monkeypatch.setenv("OPENENV_WORKERS", "2")
    assert create_app("echo").state.settings.workers == 2


def test_it_is_part_of_the_package() -> None:
    assert openenv_gym.create_app is create_app
