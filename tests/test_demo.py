from __future__ import annotations

import pytest

from openenv_gym.demo import main


def test_demo_rolls_out_both_environments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--steps", "60"]) == 0
    shown = capsys.readouterr().out
    assert "step 'hello'           -> 'hello', reward 0.5" in shown
    assert "episodes finished" in shown
    assert "60 steps in" in shown


def test_demo_repeats_itself_with_the_same_seed(capsys: pytest.CaptureFixture[str]) -> None:
    runs = []
    for _ in range(2):
        main(["--steps", "200", "--seed", "7"])
        runs.append([line for line in capsys.readouterr().out.splitlines() if "returns" in line])
    assert runs[0] == runs[1] != []


def test_unknown_option_ends_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--step-count", "3"])
    assert ended.value.code == 2
    assert "--step-count" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--steps", "0"], ["--steps", "-1"], ["--seed", "-1"]])
def test_an_impossible_number_ends_with_code_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert "--steps is at least 1" in capsys.readouterr().err
