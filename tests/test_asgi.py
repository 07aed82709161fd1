"""The way to the application."""

from __future__ import annotations

from openenv_gym.asgi import create_app


def test_a_name_is_taken_as_the_server_takes_it() -> None:
    app = create_app("CartPole-v1")
    assert app.state.target.name == "CartPole-v1"
    assert app.state.settings.workers == 0
