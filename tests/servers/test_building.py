"""What a session gets built, and what is refused before anything is."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import pytest

from openenv_gym.errors import (
    CapacityError,
    ConfigError,
    ConstructionError,
    EnvironmentMismatchError,
    ForbiddenError,
    OpenEnvError,
    RemoteProtocolError,
    VersionMismatchError,
)
from openenv_gym.protocol import messages as m
from openenv_gym.servers.building import check_hello, limits_of, plan_of
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.targets import resolve
from tests.support.typedenvs import GuessNumber

from .fakes import desk

_OPTIONS = "tests.support.testenvs:Options-v0"
_COUNTER = "tests.support.testenvs:Counter-v0"


class Telling(GuessNumber):
    """Notes on which threads it is built and asked."""

    told: ClassVar[list[tuple[int, int]]] = []

    def __init__(self) -> None:
        super().__init__()
        self.built = threading.get_ident()

    def describe(self) -> Any:
        """Note it."""
        self.told.append((self.built, threading.get_ident()))
        return super().describe()


def _hello(**fields: Any) -> m.Hello:
    return m.Hello(session="a" * 32, token=b"t" * 16, **fields)


def _kwargs(settings: ServerSettings, env_kwargs: Any, *, local: bool) -> Any:
    """Return what reached the constructor."""
    stage, _ = plan_of(settings, resolve(_OPTIONS)).build(_hello(env_kwargs=env_kwargs), desk(local))
    try:
        reply = stage.answer(m.Reset(1))
        info = stage.env.reset()[1]  # type: ignore[attr-defined]
        assert isinstance(reply, m.Observation)
        return info["kwargs"]
    finally:
        stage.close()


@pytest.mark.parametrize("expect", [None, "CartPole-v1", "somewhere:CartPole-v1"])
def test_a_session_that_expects_what_is_served_passes(expect: str | None) -> None:
    check_hello(_hello(expect=expect), resolve("CartPole-v1"), 4)


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"version": 2}, VersionMismatchError, "version 2 of openenv.msgpack.v1, the server version 1"),
        ({"version": 0}, VersionMismatchError, "install the same openenv-gym on both sides"),
        ({"expect": "Acrobot-v1"}, EnvironmentMismatchError, "'Acrobot-v1' was asked for, .* 'CartPole-v1'"),
        ({"lanes": 5}, CapacityError, "4 lanes here and 5 were asked for"),
        ({"lanes": 0}, RemoteProtocolError, "0 lanes; write 1 or more"),
        ({"lanes": -1}, RemoteProtocolError, "-1 lanes"),
        ({"autoreset": "never"}, RemoteProtocolError, "unknown autoreset 'never'"),
        ({"autoreset": "any"}, RemoteProtocolError, "unknown autoreset 'any'"),
    ],
)
def test_a_session_that_cannot_be_what_its_client_expects_is_refused(
    fields: dict[str, Any], error: type[OpenEnvError], text: str
) -> None:
    with pytest.raises(error, match=text):
        check_hello(_hello(**fields), resolve("CartPole-v1"), 4)


def test_the_version_is_checked_first() -> None:
    with pytest.raises(VersionMismatchError):
        check_hello(_hello(version=9, expect="Other-v0", lanes=7), resolve("CartPole-v1"), 4)


def test_arguments_of_the_client_come_on_top_of_those_of_the_server() -> None:
    settings = ServerSettings(env_kwargs={"a": 1, "b": 2})
    assert _kwargs(settings, None, local=True) == {"a": 1, "b": 2}
    assert _kwargs(settings, {"b": 3, "c": [4]}, local=True) == {"a": 1, "b": 3, "c": [4]}
    assert settings.env_kwargs == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("settings", "local"),
    [({}, False), ({"host": "0.0.0.0", "insecure": True}, False), ({"allow_env_kwargs": ("b",)}, True)],
)
def test_arguments_that_clients_may_not_set_are_refused_by_name(settings: Any, local: bool) -> None:
    with pytest.raises(ForbiddenError, match="'a'.*--allow-env-kwargs") as caught:
        _kwargs(ServerSettings(**settings), {"a": 1}, local=local)
    assert caught.value.details["names"] == ["a"]


def test_named_arguments_may_be_set_from_anywhere() -> None:
    settings = ServerSettings(host="0.0.0.0", insecure=True, allow_env_kwargs=("a",))
    assert _kwargs(settings, {"a": 1}, local=False) == {"a": 1}


@pytest.mark.parametrize("kwargs", [["a"], "a", 7, "", False])
def test_arguments_must_be_a_map(kwargs: Any) -> None:
    with pytest.raises(ConfigError, match="map of keyword arguments"):
        _kwargs(ServerSettings(), kwargs, local=True)


@pytest.mark.parametrize("kwargs", [[], [{}, {}]])
def test_a_list_of_arguments_has_one_map_a_lane(kwargs: Any) -> None:
    assert _kwargs(ServerSettings(), [{"a": 1}], local=True) == {"a": 1}
    with pytest.raises(ConfigError, match=f"list of {len(kwargs)} maps for 1 lanes"):
        _kwargs(ServerSettings(), kwargs, local=True)


def test_keys_that_are_no_names_do_not_reach_the_constructor() -> None:
    with pytest.raises(ConfigError, match="names in env_kwargs must be str, not a int: 1"):
        _kwargs(ServerSettings(), {1: 2}, local=True)


def test_render_mode_and_time_limit_are_the_clients_choice() -> None:
    build = plan_of(ServerSettings(), resolve("CartPole-v1")).build
    stage, facts = build(_hello(render_mode="rgb_array", time_limit=False), desk())
    assert facts["render_mode"] == "rgb_array"
    assert "TimeLimit" not in str(stage.env)  # type: ignore[attr-defined]
    stage.close()
    stage, facts = build(_hello(), desk())
    assert facts["render_mode"] is None
    assert "TimeLimit" in str(stage.env)  # type: ignore[attr-defined]
    stage.close()


def test_attributes_follow_the_settings() -> None:
    for allowed in (True, False):
        stage, _ = plan_of(ServerSettings(attributes=allowed), resolve(_COUNTER)).build(_hello(), desk())
        try:
            stage.answer(m.Get(1, "total"))
            reached = True
        except ForbiddenError:
            reached = False
        stage.close()
        assert reached is allowed


def test_an_environment_without_a_space_on_the_wire_is_closed_and_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = resolve(_COUNTER)
    env = target.build()
    closed: list[bool] = []
    monkeypatch.setattr(env, "close", lambda: closed.append(True))
    monkeypatch.setattr(env.unwrapped, "observation_space", object())
    monkeypatch.setattr(target, "build", lambda *_, **__: env)
    plan = plan_of(ServerSettings(), target)
    with pytest.raises(OpenEnvError):
        plan.build(_hello(), desk())
    assert closed == [True]
    with pytest.raises(OpenEnvError):
        plan.describe()
    assert closed == [True, True]


def test_the_description_uses_the_arguments_of_the_server_and_closes_what_it_built(tmp_path: Any) -> None:
    path = tmp_path / "notes"
    facts = plan_of(ServerSettings(env_kwargs={"path": str(path)}), resolve(_COUNTER)).describe()
    assert facts["target"] == "Counter-v0"
    assert path.read_text() == "ic"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"face": "typed"},
        {"render_mode": "rgb_array"},
        {"lanes": 3},
        {"lanes": 3, "env_kwargs": [{}, {}, {}]},
        {"lanes": 3, "limits": m.Limits(threads=3)},
        {"lanes": 1, "capabilities": ["lanes"]},
        {"lanes": 3, "native": True, "autoreset": "any"},
    ],
    ids=str,
)
def test_the_first_session_without_arguments_of_its_own_describes_the_environment(
    fields: dict[str, Any],
) -> None:
    plan = plan_of(ServerSettings(), resolve("CartPole-v1"))
    told = []
    own = {"sutton_barto_reward": True}
    each = [own] * fields.get("lanes", 1) if isinstance(fields.get("env_kwargs"), list) else own
    for asked in ({**fields, "env_kwargs": each}, fields, fields):
        stage, facts = plan.build(_hello(**asked), desk())
        told.append(facts.get("about"))
        stage.close()
    assert (told[0], told[2]) == (None, None)
    assert told[1] == plan.describe()
    assert told[1]["own"]["name"] == "CartPole-v1"


def test_lanes_are_described_on_their_thread_and_once() -> None:
    plan = plan_of(ServerSettings(lane_threads=2), resolve("tests.servers.test_building:Telling"))
    Telling.told.clear()
    stage, facts = plan.build(_hello(lanes=4), desk())
    stage.close()
    assert facts["about"]["own"]["name"] == "Telling"
    ((built, told),) = Telling.told
    assert built == told != threading.get_ident()


def test_what_ends_a_description_closes_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    path = tmp_path / "notes"

    def leave(face: Any, topic: str, arguments: Any) -> None:
        raise SystemExit

    monkeypatch.setattr("openenv_gym.servers.faces._SpaceFace.ask", leave)
    plan = plan_of(ServerSettings(env_kwargs={"path": str(path)}, lane_threads=1), resolve(_COUNTER))
    with pytest.raises(ConstructionError):
        plan.build(_hello(lanes=2), desk())
    assert path.read_text().count("i") == path.read_text().count("c")


def test_a_session_does_without_a_description_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(face: Any, topic: str, arguments: Any) -> None:
        raise OSError("no README")

    monkeypatch.setattr("openenv_gym.servers.faces._SpaceFace.ask", fail)
    plan = plan_of(ServerSettings(), resolve(_COUNTER))
    stage, facts = plan.build(_hello(), desk())
    stage.close()
    assert "about" not in facts
    with pytest.raises(OSError, match="README"):
        plan.describe()


def test_what_is_no_environment_is_refused() -> None:
    with pytest.raises(ConstructionError):
        plan_of(ServerSettings(), resolve("builtins:dict")).build(_hello(), desk())


def test_clients_are_told_the_limits() -> None:
    settings = ServerSettings(
        max_message_size=1 << 20,
        step_deadline=1.0,
        reset_deadline=None,
        construction_deadline=3.0,
        max_lanes=7,
        resume_grace=4.0,
    )
    limits = limits_of(settings)
    assert (limits.message, limits.lanes, limits.step, limits.reset) == (1 << 20, 7, 1.0, 0.0)
    assert (limits.construction, limits.resume) == (3.0, 4.0)
    plan = plan_of(settings, resolve("CartPole-v1"))
    assert (plan.grace, plan.limits) == (4.0, limits)
    assert plan.server.startswith("openenv_gym/")
