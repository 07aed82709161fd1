"""What the documents list is what the code has: options, variables, arguments, errors, paths, modules."""

from __future__ import annotations

import inspect
import re
import tomllib
from dataclasses import fields
from itertools import groupby
from pathlib import Path

import pytest
from starlette.routing import Route

import openenv_gym
from openenv_gym import errors, testing, wrappers
from openenv_gym.client import EnvClient
from openenv_gym.client import settings as client
from openenv_gym.providers import inprocess, process
from openenv_gym.servers import problems
from openenv_gym.servers.app import create_app
from openenv_gym.servers.settings import ServerSettings, env_variable, flag
from openenv_gym.servers.targets import resolve
from openenv_gym.wrappers import vector
from openenv_gym.wrappers.vector import RemoteVectorEnv
from tests.tree import ROOT, parse, sources

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
SHARED = {"OPENENV_TOKEN", "OPENENV_KEEPALIVE", "OPENENV_MAX_MESSAGE_SIZE", "OPENENV_COMPRESSION"}
"""Variables of clients and servers."""

READ_ELSEWHERE = {"OPENENV_CLIENT_MODE", "OPENENV_POLL"}
"""Variables of clients that are no settings of an env."""

INTERNAL = {"OPENENV_CI", "OPENENV_HYPOTHESIS", "OPENENV_WARNING_FILTERS"}
"""Variables that are no user's business."""


def _page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def _section(text: str, title: str) -> str:
    """Return what stands under a heading, its sub-headings included."""
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,2}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"there is no heading {title!r}"
    return found[2]


def _rows(text: str) -> list[list[str]]:
    """Return the cells of all table rows, without those of headers."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    ruled = {index for index, line in enumerate(lines) if re.match(r"\|[\s|:-]+\|$", line)}
    rows = [line for index, line in enumerate(lines) if index not in ruled and index + 1 not in ruled]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


def _code(cell: str) -> str:
    found = re.match(r"`([^`]+)`", cell)
    return found[1] if found else ""


def _option_row(item: object) -> str:
    about, name, default = item.metadata, item.name, item.default  # type: ignore[attr-defined]
    kind = about["kind"]
    shown = about["shown"] or kind.show({} if name == "env_kwargs" else default)
    option = flag(name) if name == "insecure" else f"{flag(name)} {kind.metavar}"
    return f"| `{option}` | `{env_variable(name)}` | {shown} | {about['help']} |"


def test_the_options_of_the_server_are_these() -> None:
    expected: list[str] = []
    for group, items in groupby(fields(ServerSettings), lambda item: str(item.metadata["group"])):
        expected += [
            f"### {group.capitalize()}",
            "",
            "| option | variable | default | meaning |",
            "|---|---|---|---|",
        ]
        expected += [*map(_option_row, items), ""]
    text = _section(_page("reference/server.md"), "Options")
    found = text[text.index("###") :].splitlines()
    assert found == expected


def test_the_arguments_of_envs_are_these() -> None:
    defaults = {item.name: item.default for item in fields(client.ClientSettings)}
    expected = {}
    for name in client._KEYWORDS:
        variable, _ = client._VARIABLES.get(name, ("", None))
        default = {} if name in ("provider_kwargs", "headers", "env_kwargs") else defaults[name]
        expected[name] = (variable, repr(default).replace("'", '"'))
    section = _section(_page("reference/python.md"), "Keyword arguments and variables")
    rows = [row for row in _rows(section) if len(row) == 4]
    assert {_code(row[0]): (_code(row[1]), _code(row[2])) for row in rows} == expected


def test_the_variables_without_an_argument_are_these() -> None:
    section = _section(_page("reference/python.md"), "Keyword arguments and variables")
    rows = {_code(row[0]) for row in _rows(section) if len(row) == 3}
    without = {variable for name, (variable, _) in client._VARIABLES.items() if name not in client._KEYWORDS}
    assert rows == without | READ_ELSEWHERE
    assert set(re.findall(r"OPENENV_\w+", section)) >= SHARED


def test_clients_and_servers_share_these_variables() -> None:
    of_server = {env_variable(item.name) for item in fields(ServerSettings)}
    assert {variable for variable, _ in client._VARIABLES.values()} & of_server == SHARED


def test_what_providers_set_themselves_is_listed() -> None:
    section = _section(_page("reference/python.md"), "Providers")
    listed = {_code(row[0]): tuple(re.findall(r"`(\w+)`", row[2])) for row in _rows(section)}
    assert listed == {'"process"': process._OWN, '"inprocess"': inprocess._OWN}
    about_servers = {env_variable(item.name) for item in fields(ServerSettings)}
    assert set(re.findall(r"OPENENV_\w+", section)) == about_servers & set(process._NOT_INHERITED)
    for name, value in process._DEFAULTS.items():
        assert f"{name}={int(value) if value else value}" in section


def test_the_arguments_of_typed_clients_are_these() -> None:
    parameters = inspect.signature(EnvClient).parameters.values()
    expected = {item.name: repr(item.default) for item in parameters}
    section = _section(_page("reference/python.md"), "Typed environments and clients")
    table = section[section.index("| argument |") :]
    assert {_code(row[0]): _code(row[1]) for row in _rows(table)} == expected


def test_the_extras_are_these() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = _rows(_section(_page("reference/python.md"), "Extras"))
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row[0])} == {
        *project["optional-dependencies"]
    }


@pytest.mark.parametrize("name", [*openenv_gym.__all__, *testing.__all__, *wrappers.__all__, *vector.__all__])
def test_every_public_name_has_its_place(name: str) -> None:
    page = _page("reference/python.md")
    assert re.search(rf"`(openenv_gym\.)?{name}\b", page), f"reference/python.md does not say what {name} is"


def test_the_errors_are_these() -> None:
    rows = _rows(_page("reference/errors.md"))
    expected = []
    for name in (word for word in _names_in_order() if word.endswith("Error")):
        cls = getattr(errors, name)
        expected.append((name, str(cls.code), [base.__name__ for base in cls.__bases__]))
    assert [(_code(row[0]), _code(row[1]), re.findall(r"`(\w+)`", row[2])) for row in rows] == expected


def _names_in_order() -> list[str]:
    tree = parse(Path(errors.__file__))
    return [node.name for node in tree.body if hasattr(node, "name")]


@pytest.mark.parametrize("row", _rows(_page("reference/errors.md")), ids=lambda row: _code(row[0]))
def test_the_details_that_a_class_promises_are_listed(row: list[str]) -> None:
    about = (getattr(errors, _code(row[0])).__doc__ or "").partition("details")[2].partition("server")[0]
    promised = set(re.findall(r"``(\w+)``|\[\"(\w+)\"\]", about))
    listed = {("", name) for name in re.findall(r"`(\w+)`", row[4])}
    vague = _code(row[0]) in ("OpenEnvError", "VectorEnvError")  # they give examples
    assert vague or {("", one or other) for one, other in promised} <= listed


def test_the_paths_of_the_server_are_these() -> None:
    app = create_app(None, ServerSettings(), resolve("echo"))  # type: ignore[arg-type]
    paths = {route.path for route in app.routes if isinstance(route, Route)}
    requests = [_code(row[0]) for row in _rows(_section(_page("reference/server.md"), "HTTP"))]
    listed = {request.partition(" ")[2] for request in requests if request.startswith(("GET ", "POST "))}
    assert listed == paths


def test_the_statuses_of_the_server_are_these() -> None:
    rows = [row for row in _rows(_section(_page("reference/server.md"), "HTTP")) if row[0].isdigit()]
    listed = {(code, int(row[0])) for row in rows for code in re.findall(r"`(\w+)`", row[1])}
    assert {(str(code), status) for code, status in problems._STATUS.items()} <= listed
    assert {code for code, _ in listed} - set(errors.ErrorCode) == {"not_found"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_options_and_variables_in_the_documents_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    options = {flag(item.name) for item in fields(ServerSettings)}
    variables = {variable for variable, _ in client._VARIABLES.values()} | READ_ELSEWHERE
    variables |= {env_variable(item.name) for item in fields(ServerSettings)}
    assert set(re.findall(r"\bOPENENV_[A-Z_]+", text)) - variables - INTERNAL == set()
    calls = re.findall(r"openenv_gym\.serve ([^\n`]*)", text)
    assert {word for call in calls for word in re.findall(r"(?<!\S)--[\w-]+", call)} - options == set()


def test_every_variable_that_is_read_is_in_the_reference() -> None:
    documented = re.findall(r"OPENENV_\w+", _page("reference/python.md") + _page("reference/server.md"))
    code = "".join(path.read_text(encoding="utf-8") for path in sources().values())
    assert set(re.findall(r"\"(OPENENV_[A-Z_]+[A-Z])\"", code)) - set(documented) <= INTERNAL


def test_every_argument_of_a_vector_environment_stands_in_its_table() -> None:
    rows = [line for line in _page("vector.md").splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert set(inspect.signature(RemoteVectorEnv).parameters) - {"kwargs"} <= named


def test_the_architecture_names_every_module() -> None:
    named = set(re.findall(r"`([\w.]+)`", _page("architecture.md")))
    modules = [name for name, path in sources().items() if path.name != "__init__.py"]
    assert [name for name in modules if not _named(name, named)] == []
    rooms = ("client", "protocol", "providers", "servers", "testing", "transport", "wrappers")
    gone = [name for name in named if name.partition(".")[0] in rooms and "." in name]
    assert [name for name in gone if f"openenv_gym.{name}" not in sources()] == []


def _named(module: str, named: set[str]) -> bool:
    """Return whether a module is named with its room, as in ``client.sync``, or in full."""
    return module in named or module.removeprefix("openenv_gym.") in named


def test_the_index_has_every_page() -> None:
    index = _page("README.md")
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert [page for page in pages if page != "README.md" and f"({page})" not in index] == []
