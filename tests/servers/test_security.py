"""Token, Origin and Host decide who gets in."""

from __future__ import annotations

import pytest

from openenv_gym.errors import AuthenticationError, ForbiddenError
from openenv_gym.servers.security import check_host, check_mode, check_origin, check_token
from openenv_gym.servers.settings import ServerSettings

GUARDED = ServerSettings(token="s3cret")
PAGES = ServerSettings(allowed_origins=("https://example.org", "http://localhost:3000"))


@pytest.mark.parametrize("header", ["Bearer s3cret", "bearer s3cret", "BEARER  s3cret "])
def test_the_token_opens(header: str) -> None:
    check_token(GUARDED, header)


@pytest.mark.parametrize("header", [None, "", "s3cret", "Basic s3cret", "Token s3cret"])
def test_without_a_token_the_message_says_how(header: str | None) -> None:
    with pytest.raises(AuthenticationError, match=r"wants a token.*OPENENV_TOKEN"):
        check_token(GUARDED, header)


@pytest.mark.parametrize("header", ["Bearer ", "Bearer S3CRET", "Bearer s3cret2", "Bearer s3cre", "Bearer é"])
def test_a_wrong_token_is_refused_and_not_repeated(header: str) -> None:
    with pytest.raises(AuthenticationError, match="the token is wrong") as caught:
        check_token(GUARDED, header)
    assert "s3cre" not in str(caught.value).lower()


def test_without_a_token_of_its_own_a_server_asks_for_none() -> None:
    check_token(ServerSettings(), None)
    check_token(ServerSettings(), "Bearer anything")


@pytest.mark.parametrize(
    "origin", [None, "https://example.org", "https://EXAMPLE.org:443", "http://localhost:3000"]
)
def test_a_listed_page_and_whoever_is_no_page_gets_in(origin: str | None) -> None:
    check_origin(PAGES, origin)


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "https://evil.example",
        "http://example.org",
        "https://example.org:8443",
        "https://example.org.evil.com",
        "https://example.org@evil.com",
        "http://localhost",
        "nonsense",
    ],
)
def test_another_page_does_not(origin: str) -> None:
    with pytest.raises(ForbiddenError, match="--allowed-origins"):
        check_origin(PAGES, origin)


def test_by_default_no_page_gets_in() -> None:
    with pytest.raises(ForbiddenError, match=r"https://evil\.example"):
        check_origin(ServerSettings(), "https://evil.example")
    with pytest.raises(ForbiddenError, match=r"http://127\.0\.0\.1:8000"):
        check_origin(ServerSettings(), "http://127.0.0.1:8000")


def test_a_star_lets_every_page_in() -> None:
    check_origin(ServerSettings(allowed_origins=("*",)), "https://evil.example")
    check_host(ServerSettings(allowed_origins=("*",)), "evil.example")


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8000", "localhost", "LOCALHOST.:8000", "[::1]:8000", "127.9.9.9"]
)
def test_a_local_server_answers_to_local_names(host: str) -> None:
    check_host(ServerSettings(), host)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.com",
        "localhost.evil.com",
        "evil.com?x=localhost",
        "user:localhost@evil.com",
        "[",
        "0.0.0.0",
    ],
)
def test_a_local_server_does_not_answer_to_others(host: str | None) -> None:
    with pytest.raises(ForbiddenError, match="for its own machine"):
        check_host(ServerSettings(), host)


def test_names_of_listed_pages_and_other_servers_are_not_checked() -> None:
    check_host(PAGES, "example.org")
    check_host(ServerSettings(host="0.0.0.0"), "anything.example")
    check_host(ServerSettings(uds="s.sock"), "localhost")


def test_f082_in_production_mode_there_are_no_binary_sessions() -> None:
    check_mode(ServerSettings())
    with pytest.raises(ForbiddenError, match="production mode.*/mcp") as caught:
        check_mode(ServerSettings(mode="production"))
    assert caught.value.details == {"option": "mode"}
