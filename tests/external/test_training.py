"""Training scripts that know nothing of this project give the same results remotely as locally."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from tests.support.external import ensure_venv, run

HERE = Path(__file__).parent
LOCAL, REMOTE = "CartPole-v1", "remote/CartPole-v1"
PREFIXED = f"openenv_gym:{REMOTE}"

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def python() -> Path:
    return ensure_venv()


def returns(python: Path, command: list[str], cwd: Path) -> list[float]:
    printed = run(python, command, cwd)
    return [float(value) for value in json.loads(printed.splitlines()[-1])]


def test_stable_baselines_returns_are_equal_one_by_one(python: Path, tmp_path: Path) -> None:
    command = [str(HERE / "sb3_ppo.py")]
    local = returns(python, [*command, LOCAL, "4096", "7"], tmp_path)
    remote = returns(python, [*command, PREFIXED, "4096", "7"], tmp_path)
    assert len(local) > 50
    assert remote == local


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_stable_baselines_returns_of_lanes_are_those_of_its_own_class(
    mode: str, python: Path, tmp_path: Path
) -> None:
    command = [str(HERE / "sb3_lanes.py")]
    own = returns(python, [*command, "dummy", LOCAL, "2048", "7"], tmp_path)
    assert len(own) > 50
    assert returns(python, [*command, mode, PREFIXED, "2048", "7"], tmp_path) == own


def test_single_file_script_returns_are_equal_one_by_one(python: Path, tmp_path: Path) -> None:
    def episodes(env_id: str) -> list[str]:
        printed = run(python, [str(HERE / "single_file_ppo.py"), "--env-id", env_id], tmp_path)
        return re.findall(r"episodic_return=(\S+)", printed)

    local = episodes(LOCAL)
    assert len(local) > 50
    assert episodes(PREFIXED) == local


def test_masks_reach_the_maskable_policy(python: Path, tmp_path: Path) -> None:
    target = "tests.support.testenvs:Masked-v0"
    command = [str(HERE / "maskable_ppo.py")]
    local = returns(python, [*command, target, "1024", "3"], tmp_path)
    kwargs = json.dumps({"env_id": target})
    remote = returns(python, [*command, "openenv_gym:openenv/Gym-v0", "1024", "3", kwargs], tmp_path)
    assert len(local) > 50
    assert remote == local


def test_zoo_command_line_gives_equal_returns(python: Path, tmp_path: Path) -> None:
    def episodes(env_id: str) -> list[list[str]]:
        logs = tmp_path / env_id.replace("/", "-")
        command = ["-m", "rl_zoo3.train", "--algo", "ppo", "--env", env_id, "--gym-packages", "openenv_gym"]
        options = ["-conf", str(HERE / "zoo.yml"), "--eval-freq", "-1", "-f", str(logs), "--seed", "5"]
        run(python, [*command, *options, "--num-threads", "1"], tmp_path)
        return [_rewards(path) for path in sorted(logs.rglob("*.monitor.csv"))]

    local = episodes(LOCAL)
    assert [len(rewards) > 10 for rewards in local] == [True, True]
    assert episodes(REMOTE) == local


def test_f032_a_notebook_needs_nothing_special(python: Path, tmp_path: Path) -> None:
    printed = run(python, [str(HERE / "notebook.py")], tmp_path)
    assert printed.split(maxsplit=1) == ["True", f"{[1.0] * 10 + [2, 4] * 2}\n"]


def _rewards(path: Path) -> list[str]:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [row["r"] for row in csv.DictReader(lines)]
