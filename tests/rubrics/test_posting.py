from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from openenv_gym.rubrics import posting
from openenv_gym.rubrics.posting import in_thread, post
from tests.rubrics.scripted import Reply, scripted

HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer secret"}


def test_what_is_posted_arrives_and_what_is_answered_returns() -> None:
    with scripted(Reply(b"yes", 201, {"X-It": "1"})) as server:
        answer = post(f"{server.base_url}/here", HEADERS, b'{"a": 1}', 10.0)
    assert (answer.status, answer.body, answer.headers["X-It"]) == (201, b"yes", "1")
    (asked,) = server.asked
    assert (asked.path, asked.body, asked.headers["Authorization"]) == ("/here", {"a": 1}, "Bearer secret")


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 429, 503])
def test_every_status_is_an_answer_and_redirections_are_not_followed(status: int) -> None:
    with scripted(Reply(b"elsewhere", status)) as other:
        reply = Reply(b"no", status, {"Location": f"{other.base_url}/there"})
        with scripted(reply) as server:
            answer = post(server.base_url, HEADERS, b"{}", 10.0)
    assert (answer.status, answer.body) == (status, b"no")
    assert (server.calls, other.calls) == (1, 0)


def test_a_server_that_says_nothing_is_given_up() -> None:
    with scripted(Reply(hold=True)) as server, pytest.raises(TimeoutError):
        post(server.base_url, HEADERS, b"{}", 0.05)


def test_a_server_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 30.0, 90.0])
    monkeypatch.setattr(posting, "_CHUNK", 2)
    with scripted(Reply(b"abcdefgh")) as server, pytest.raises(TimeoutError, match="did not end in time"):
        with monkeypatch.context() as patched:
            patched.setattr(
                posting, "time", type("Clock", (), {"monotonic": staticmethod(lambda: next(now))})
            )
            post(server.base_url, HEADERS, b"{}", 60.0)


@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_has_a_limit(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    monkeypatch.setattr(posting, "_LARGEST", 5)
    with scripted(Reply(b"123456", status)) as server, pytest.raises(OSError, match="more than 5 bytes"):
        post(server.base_url, HEADERS, b"{}", 10.0)


def test_no_server_is_an_error() -> None:
    with socket.socket() as taken:  # and not listened on, so that nobody else does
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match="refused"):
            post(f"http://127.0.0.1:{taken.getsockname()[1]}", HEADERS, b"{}", 10.0)


def test_more_threads_than_asyncio_has_wait_side_by_side() -> None:
    barrier = threading.Barrier(40)

    async def main() -> list[int]:
        return await asyncio.gather(*(in_thread(barrier.wait, 30) for _ in range(40)))

    assert sorted(asyncio.run(main())) == list(range(40))


def test_an_exception_comes_back() -> None:
    def fail() -> None:
        raise LookupError("there")

    with pytest.raises(LookupError, match="there"):
        asyncio.run(in_thread(fail))


def test_who_gave_up_is_not_waited_for() -> None:
    going = threading.Event()
    threads = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def wait() -> None:
            threads.append(threading.current_thread())
            loop.call_soon_threadsafe(task.cancel)
            going.wait()

        task = asyncio.ensure_future(in_thread(wait))
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert threads[0].is_alive()
    going.set()
    threads[0].join()
