"""What the documents show works: their Python and shell blocks run, their links lead somewhere.

The blocks of one document run in their order, in one empty folder. An HTML comment above a block changes
that: ``<!-- background -->`` starts a server that lives until the document's end, ``<!-- file: NAME -->``
writes the block to a file there (whatever its language), ``<!-- not run: why -->`` leaves it out.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tree import ROOT

FENCE = re.compile(
    r"^(?:<!-- (?P<note>[^\n]*?) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
TO_HEADING = re.compile(r"\]\((?!\w+:)([^)#\s]*)#([^)\s]+)\)")
DEFAULT_PORT = "8000"


@dataclass(frozen=True)
class Block:
    where: str
    note: str
    language: str
    code: str


def _documents() -> list[str]:
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md"), *(ROOT / "envs").glob("*/README.md")]
    found += [*(ROOT / "benchmarks").glob("*.md"), *(ROOT / "examples").glob("*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def _blocks(document: str) -> list[Block]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return [
        Block(
            f"{document}:{text.count(chr(10), 0, match.start('language')) + 1}",
            match["note"] or "",
            match["language"],
            match["code"],
        )
        for match in FENCE.finditer(text)
    ]


def _runs(block: Block) -> bool:
    if block.note.startswith("file: "):
        return True
    return block.language in ("python", "bash") and not block.note.startswith("not run: ")


def _free_port() -> str:
    """Return a port that no process gets unless it asks for it, and no other test process tries first."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with suppress(OSError), closing(socket.create_server(("127.0.0.1", port))):
            return str(port)
    raise AssertionError("there is no free port")


def _environment() -> dict[str, str]:
    """Return the environment of a block: ``python`` is this Python, and the package is this checkout's."""
    bin_folder = str(Path(sys.executable).parent)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {
        **os.environ,
        "PATH": os.pathsep.join([bin_folder, os.environ.get("PATH", "")]),
        "PYTHONPATH": path,
        "PYTHONWARNINGS": "error",
    }


def _command(block: Block, port: str) -> list[str]:
    code = re.sub(rf"\b{DEFAULT_PORT}\b", port, block.code)
    return (
        [sys.executable, "-c", code]
        if block.language == "python"
        else ["bash", "-euo", "pipefail", "-c", code]
    )


def _start(block: Block, port: str, folder: Path, stack: ExitStack) -> None:
    """Start a server, and return when it says that it serves."""
    log = folder / f"server-{block.where.rpartition(':')[2]}.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            _command(block, port),
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    stack.callback(_stop, server)
    for _ in range(1200):
        assert server.poll() is None, f"{block.where} ended early:\n{log.read_text()}"
        if " INFO serving " in log.read_text():
            return
        time.sleep(0.05)
    pytest.fail(f"{block.where} does not serve:\n{log.read_text()}")


def _stop(server: subprocess.Popen[bytes]) -> None:
    os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _run(block: Block, port: str, folder: Path) -> None:
    done = subprocess.run(
        _command(block, port),
        cwd=folder,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{block.where} failed:\n{done.stdout}{done.stderr}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("document", [name for name in _documents() if any(map(_runs, _blocks(name)))])
def test_examples_run(document: str, tmp_path: Path) -> None:
    port = _free_port()
    with ExitStack() as stack:
        for block in filter(_runs, _blocks(document)):
            if block.note.startswith("file: "):
                (tmp_path / block.note.removeprefix("file: ")).write_text(block.code, encoding="utf-8")
            elif block.note == "background":
                _start(block, port, tmp_path, stack)
            else:
                _run(block, port, tmp_path)


@pytest.mark.parametrize("document", _documents())
def test_blocks_name_their_language_and_notes_are_known(document: str) -> None:
    for block in _blocks(document):
        assert block.language, f"{block.where} names no language (use text for none)"
        known = re.fullmatch(r"|background|file: [\w./]+|not run: \S.*", block.note)
        assert known, f"{block.where} has the note {block.note!r}"


@pytest.mark.parametrize("document", _documents())
def test_relative_links_lead_somewhere(document: str) -> None:
    text = FENCE.sub("", (ROOT / document).read_text(encoding="utf-8"))
    broken = [link for link in LINK.findall(text) if not ((ROOT / document).parent / link).exists()]
    assert broken == []


def _anchors(path: Path) -> set[str]:
    """Return what links to the headings of a document say after the ``#``."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", _documents())
def test_links_to_headings_find_them(document: str) -> None:
    path = ROOT / document
    links = TO_HEADING.findall(FENCE.sub("", path.read_text(encoding="utf-8")))
    targets = [(path.parent / name if name else path, anchor) for name, anchor in links]
    assert [anchor for target, anchor in targets if anchor not in _anchors(target)] == []


def test_the_readme_starts_with_the_two_commands() -> None:
    first = _blocks("README.md")[0]
    assert [line.partition("#")[0].strip() for line in first.code.splitlines()] == ["make demo", "make test"]


def test_blocks_are_found_with_their_notes() -> None:
    text = "a\n<!-- not run: because -->\n```bash\nfalse\n```\n\n```python\nx = 1\n```\n"
    found = [(match["note"], match["language"], match["code"]) for match in FENCE.finditer(text)]
    assert found == [("not run: because", "bash", "false\n"), (None, "python", "x = 1\n")]
