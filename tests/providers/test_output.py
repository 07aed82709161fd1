from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from openenv_gym.providers import output
from openenv_gym.providers.output import Output, lock_file


@pytest.fixture
def printed(tmp_path: Path) -> Output:
    found = Output()
    found.open(tmp_path / "log")
    return found


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_each_line_is_logged_once(printed: Output, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "openenv_gym.server")
    os.write(printed.fileno(), b"one\ntwo\nthr")
    printed.forward()
    os.write(printed.fileno(), b"ee %s\r\n\xff\n")
    printed.forward()
    printed.forward()
    assert lines(caplog) == ["one", "two", "three %s", "\ufffd"]


def test_what_nobody_listens_to_is_passed_over(printed: Output, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "openenv_gym.server")
    os.write(printed.fileno(), b"one\nhal")
    printed.forward()
    caplog.set_level(logging.INFO, "openenv_gym.server")
    os.write(printed.fileno(), b"two\n")
    printed.forward()
    assert lines(caplog) == ["two"]


def test_the_tail_is_there_after_the_file_is_gone(printed: Output, tmp_path: Path) -> None:
    os.write(printed.fileno(), b"".join(b"line %d\n" % number for number in range(20_000)))
    (tmp_path / "log").unlink()
    assert printed.tail(2) == "line 19998\nline 19999"
    assert len(printed.tail(100).splitlines()) == 100


def test_before_anything_was_started_there_is_nothing() -> None:
    assert Output().tail(5) == ""
    Output().forward()


def test_a_file_that_was_read_does_not_grow_without_end(
    printed: Output, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_LONGEST", 10)
    caplog.set_level(logging.INFO, "openenv_gym.server")
    os.write(printed.fileno(), b"0123456789\nab")
    printed.forward()
    assert os.fstat(printed.fileno()).st_size == 0
    os.write(printed.fileno(), b"cd\n")
    printed.forward()
    assert lines(caplog) == ["0123456789", "abcd"]


def test_the_lock_tells_whether_anybody_writes_still(printed: Output, tmp_path: Path) -> None:
    path = tmp_path / "log"
    writer = os.dup(printed.fileno())
    assert not lock_file(path)
    printed.open(tmp_path / "other")
    assert not lock_file(path)
    os.close(writer)
    assert lock_file(path)
    assert lock_file(tmp_path / "missing")
