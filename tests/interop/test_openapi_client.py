"""A client that a generator makes from ``/openapi.json`` plays an episode."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.serverproc import serving

from .venvs import interpreter

PLAYER = Path(__file__).with_name("openapi_player.py")
#: The newest with which this was tried.
PACKAGES = ("openapi-python-client==0.29.1",)

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return interpreter("OPENAPI_VENV", PACKAGES, tmp_path_factory.mktemp("openapi") / "venv")


def _run(*command: str) -> str:
    done = subprocess.run(
        command, capture_output=True, stdin=subprocess.DEVNULL, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_generated_client_plays_an_episode(python: Path, tmp_path: Path) -> None:
    with serving("tests.support.typedenvs:GuessNumber", "--workers", "1") as server:
        document = tmp_path / "openapi.json"
        document.write_text(json.dumps(server.get("/openapi.json")), encoding="utf-8")
        generator, package = str(python.with_name("openapi-python-client")), str(tmp_path / "generated")
        made = ("--path", str(document), "--meta", "none", "--output-path", package)
        _run(generator, "generate", *made)
        said = _run(str(python), str(PLAYER), str(tmp_path), server.url.replace("ws://", "http://"))
    seen = json.loads(said)
    assert seen["first"] == "between 1 and 100"
    assert seen["refused"] == ["body", "action", "number"]
    assert seen["last"] == ["that is it", 1.0]
    assert seen["steps"][0] == seen["steps"][1] >= 1
