from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from openenv_gym.errors import StartupError
from openenv_gym.providers.inherit import FILTERS, apply_filters, command, filters_text


class Rare(UserWarning):
    """A category of the user's own."""


def test_a_child_has_this_search_path_and_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inherit_child.py").write_text(
        "import json, sys\ndef main(arguments):\n    print(json.dumps([arguments, sys.path]))\n    return 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    done = subprocess.run(command("inherit_child", ["a b", "--c"]), capture_output=True, text=True, cwd="/")
    assert done.stderr == ""
    arguments, path = json.loads(done.stdout)
    assert arguments == ["a b", "--c"]
    assert path == [os.path.abspath(entry) for entry in sys.path]
    assert done.returncode == 3


def test_what_is_no_folder_is_left_out_of_the_search_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/a", b"/b", None, Path("/c"), "d"])
    boot = json.loads(command("m", [])[-1])
    assert boot["path"] == ["/a", "/b", os.path.abspath("d")]


def test_without_a_current_folder_what_hangs_on_it_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(sys, "path", ["", "/a"])
    assert json.loads(command("m", [])[-1])["path"] == ["/a"]


@pytest.mark.parametrize("program", [None, ""])
def test_without_a_program_there_is_no_command(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(StartupError, match=r"sys\.executable"):
        command("m", [])


def test_filters_travel_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.filterwarnings("ignore", r"about .*", DeprecationWarning, r"mod\.sub", 7)
        warnings.simplefilter("error", Rare)
        monkeypatch.setenv(FILTERS, filters_text())
        expected = [_plain(item) for item in warnings.filters]
        warnings.resetwarnings()
        apply_filters()
        assert [_plain(item) for item in warnings.filters] == expected


def test_the_interpreter_s_own_filters_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.filters[:] = [("default", None, DeprecationWarning, "__main__", 0)]  # type: ignore[index, list-item]
        monkeypatch.setenv(FILTERS, filters_text())
        apply_filters()
        (action, message, category, module, line) = warnings.filters[0]
        assert (action, message, category, line) == ("default", None, DeprecationWarning, 0)
        assert isinstance(module, re.Pattern)
        assert module.match("__main__")
        assert not module.match("__main__x")


def test_a_category_that_is_not_imported_is_left_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [["ignore", "", "not_imported_here:Rare", "", 0], ["error", "", "builtins:int", "", 0]]
    monkeypatch.setenv(FILTERS, json.dumps([*rows, ["once", "", f"{__name__}:Rare", "", 0]]))
    with warnings.catch_warnings():
        apply_filters()
        assert [_plain(item) for item in warnings.filters] == [("once", "", Rare, "", 0)]
    assert "not_imported_here" not in sys.modules


def test_without_filters_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FILTERS, raising=False)
    before = list(warnings.filters)
    apply_filters()
    assert list(warnings.filters) == before


def _plain(item: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(
        part.pattern if isinstance(part, re.Pattern) else "" if part is None else part for part in item
    )
