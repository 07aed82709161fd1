"""Libraries train on remote lanes as they do on local ones, and learn: return by return the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.external import ROOT, ensure_venv, run

HERE = Path(__file__).parent
LOCAL, REMOTE = "CartPole-v1", "openenv_gym:remote/CartPole-v1"
ONE_BATCH, SYNC = "vector_entry_point", "sync"
#: A policy that chooses by chance keeps the pole up for 20 steps or so.
LEARNT = 120.0

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def python() -> Path:
    return ensure_venv()


def trained(python: Path, cwd: Path, script: str, *args: str) -> list[float]:
    """Run a training; return what it printed, and check that the last returns are those of one who learnt."""
    printed = run(python, [str(HERE / script), *args], cwd)
    returns = [float(value) for value in json.loads(printed.splitlines()[-1])]
    last = returns[-20:]
    assert sum(last) / len(last) > LEARNT
    return returns


def test_the_example_trains_equally_on_every_kind_of_environment(python: Path, tmp_path: Path) -> None:
    def episodes(*args: str) -> list[float]:
        printed = run(python, [str(ROOT / "examples" / "ppo_vector.py"), *args], tmp_path)
        return [float(value) for value in re.findall(r"episodic_return=(\S+)", printed)]

    remote = episodes()
    assert sum(remote[-20:]) / 20 > LEARNT
    assert episodes("--env-id", LOCAL, "--vectorization-mode", "sync") == remote


def test_skrl_trains_equally(python: Path, tmp_path: Path) -> None:
    remote = trained(python, tmp_path, "skrl_ppo.py", REMOTE, ONE_BATCH, "16000", "3")
    assert trained(python, tmp_path, "skrl_ppo.py", LOCAL, SYNC, "16000", "3") == remote


@pytest.mark.parametrize("mode", ["Disabled", "SameStep"])
def test_torchrl_trains_equally(mode: str, python: Path, tmp_path: Path) -> None:
    remote = trained(python, tmp_path, "torchrl_ppo.py", REMOTE, mode, "14336", "3")
    assert trained(python, tmp_path, "torchrl_ppo.py", LOCAL, mode, "14336", "3") == remote


def test_tianshou_trains_equally(python: Path, tmp_path: Path) -> None:
    remote = trained(python, tmp_path, "tianshou_ppo.py", "lanes", REMOTE, "14336", "3")
    assert trained(python, tmp_path, "tianshou_ppo.py", "dummy", LOCAL, "14336", "3") == remote


def test_rllib_trains_equally(tmp_path: Path) -> None:
    python = ensure_venv(ray=True)
    means = [
        json.loads(run(python, [str(HERE / "rllib_ppo.py"), *args, "5", "3"], tmp_path).splitlines()[-1])
        for args in ((REMOTE, ONE_BATCH), (LOCAL, SYNC))
    ]
    assert means[0][-1] > LEARNT
    assert means[0] == means[1]
