"""One server for the test environments of a module, its sessions in threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from openenv_gym.env import RemoteEnv
from tests.conformance.serving import Cell, serve

#: Hosts every test environment: ``name`` says which.
ANY_ENV = "tests.conformance.subjects:build"

Remote = Callable[..., RemoteEnv]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the base URL of the server."""
    with serve(ANY_ENV, Cell("thread", "handover", "unix"), tmp_path_factory.mktemp("s")) as url:
        yield url


@pytest.fixture
def remote(server: str) -> Iterator[Remote]:
    """Return what makes a remote test environment, which is closed after the test.

    Called with the name of a class of ``tests.support.testenvs`` and its arguments; ``ours`` are arguments of
    :class:`RemoteEnv`.
    """
    with ExitStack() as stack:

        def make(name: str, ours: dict[str, Any] | None = None, **kwargs: Any) -> RemoteEnv:
            env = RemoteEnv(**{"base_url": server, "env_kwargs": {"name": name, **kwargs}, **(ours or {})})
            stack.callback(env.close)
            return env

        yield make
