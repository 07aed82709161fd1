"""The page needs nothing from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from openenv_gym.servers.openenv.page import PAGE, PAGE_HEADERS

_VOID = {"meta", "link", "br", "input"}


class _Tags(HTMLParser):
    """Notes what a page refers to, and which elements are left open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.targets: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.targets += [value for name, value in attrs if name in ("src", "href")]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_it_refers_to_its_own_server_only() -> None:
    tags = _Tags()
    tags.feed(PAGE)
    assert tags.targets == ["openapi.json"]
    assert tags.open == []
    assert re.findall(r"https?://|//\w+\.\w", PAGE) == []
    assert re.findall(r"fetch\(([^),]+)", PAGE) == ["url", "'openapi.json'"]


def test_browsers_are_told_to_load_nothing_else() -> None:
    policy = PAGE_HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy


def test_what_the_environment_says_is_shown_as_text_and_not_as_html() -> None:
    assert "innerHTML" not in PAGE
    assert "document.write" not in PAGE
