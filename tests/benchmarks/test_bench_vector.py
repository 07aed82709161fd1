from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from benchmarks import bench_vector, pingpong, vector_client, vector_envs, vector_plot
from benchmarks.bench_vector import CASES, bars, chosen, ratio
from openenv_gym.protocol.session import Session

FOUND = {
    "CartPole, 64 lanes": {
        "sync": [100.0, 200.0, 300.0],
        "async": [10.0, 10.0, 10.0],
        "1 worker": [110.0, 180.0, 330.0],
        "2 workers": [130.0, 250.0, 420.0],
    },
    "Frames, 8 lanes": {
        "sync": [9.0],
        "async": [1.0],
        "1 worker": [1.3],
        "2 workers": [1.4],
        "OpenEnv": [0.0069],
    },
}
NATIVE = {"64": [{"local": 40.0, "served": 80.0, "ping-pong": 10.0}] * 3}


def test_bars_compare_within_a_run_and_take_the_median() -> None:
    assert ratio(FOUND["CartPole, 64 lanes"], "1 worker", "sync") == 1.1
    assert [(bar.name, round(bar.value, 3), bar.passed) for bar in bars(FOUND, NATIVE)] == [
        ("CartPole, 64 lanes: 1 worker / sync", 1.1, True),
        ("CartPole, 64 lanes: 2 workers / sync", 1.3, True),
        ("CartPole, 64 lanes: 1 or 2 workers / async", 25.0, True),
        ("Frames, 8 lanes: 1 or 2 workers / async", 1.4, False),
        ("Frames, 8 lanes: 1 or 2 workers / OpenEnv", 202.899, True),
        ("CartPole, 64 lanes, its own class, one core: (served - local) / ping-pong", 4.0, False),
    ]


def test_one_core_has_no_bar_for_two_workers() -> None:
    names = [bar.name for bar in bars(FOUND, {}, several_cores=False)]
    assert "CartPole, 64 lanes: 1 worker / sync" in names
    assert "CartPole, 64 lanes: 2 workers / sync" not in names


def test_what_was_not_measured_has_no_bar() -> None:
    assert bars({}, {}) == []


def test_every_bar_is_of_something_that_is_measured() -> None:
    everything = {case.name: {way: [1.0] for way in case.ways} for case in CASES}
    everything["Frames, 8 lanes"]["OpenEnv"] = [1.0]
    assert len(bars(everything, {})) == 6


def test_a_quick_run_takes_what_is_quickly_built() -> None:
    assert {case.lanes for case in chosen(None, quick=True)} == {8, 64}
    assert chosen(None, quick=False) == CASES
    assert {case.env for case in chosen("Pong", quick=False)} == {"Pong"}


def test_the_sizes_of_frames_are_those_that_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: dict[str, int] = {}
    send, receive = Session.send, Session.receive

    def sending(self: Session, message: Any) -> bytes:
        frame = send(self, message)
        sizes[type(message).__name__] = len(frame)
        return frame

    def receiving(self: Session, frame: Any) -> Any:
        message = receive(self, frame)
        sizes[type(message).__name__] = len(frame)
        return message

    envs = gym.make_vec("remote/CartPole-v1", num_envs=64, lanes="native", provider_kwargs={"workers": 1})
    envs.reset(seed=0)
    monkeypatch.setattr(Session, "send", sending)
    monkeypatch.setattr(Session, "receive", receiving)
    envs.step(np.zeros(64, np.int64))
    monkeypatch.undo()
    envs.close()
    there, back = vector_client.frame_sizes(64)
    # The number of the request there takes two bytes more, header and mask are not in these.
    assert (sizes["Step"], sizes["Transition"]) == (there - 8 - 2, back - 4 - 2)


def test_a_ping_pong_may_have_another_size_back() -> None:
    core = pingpong.cores()[0]
    assert pingpong.tcp(core, core, 100, 30, 70_000).p50 > 0
    assert pingpong.unix(core, core, 70_000, 30).p50 > 0


@pytest.mark.parametrize("name", vector_envs.__all__)
def test_the_environments_keep_to_their_spaces(name: str) -> None:
    env = gym.make(f"bench/{name}-v0").unwrapped
    observation, _ = env.reset(seed=0)
    seen = [observation]
    for step in range(1, 201):
        observation, _, terminated, truncated, _ = env.step(0)
        seen.append(observation)
        assert (terminated, truncated) == (step == 200, False)
    assert all(each in env.observation_space for each in seen[:9])
    assert env.reset()[0] is seen[0]


def test_every_way_steps_the_same_lanes() -> None:
    seen: dict[str, Any] = {}
    for way in ("sync", "async", "1 worker", "2 workers", "2 servers"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            envs = vector_client.build(vector_client.CASES["Frames"], 2, way)
        envs.reset(seed=0)
        for _ in range(3):
            seen[way] = envs.step(np.zeros(2, np.int64))[0]
        envs.close()
    assert all(np.array_equal(batch, seen["sync"]) for batch in seen.values())


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_picture_has_a_label_for_every_way(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"found.{ending}"
    vector_plot.draw(FOUND | {"Pong, 8 lanes, its own class": {"vector": [9.0], "served": [8.0]}}, str(path))
    assert path.stat().st_size > 5000
    if ending == "svg":
        text = path.read_text(encoding="utf-8")
        assert all(f">{label}</text>" in text for label, _ in vector_plot.LABELS.values())


def test_a_run_prints_its_bars(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked: list[list[str]] = []

    def run_child(args: list[str], **_: Any) -> Any:
        asked.append(args)
        return FOUND["CartPole, 64 lanes"] if args[2] == "CartPole" else {"sync": [1.0]}

    monkeypatch.setattr(bench_vector, "run_child", run_child)
    out = tmp_path / "figures.json"
    monkeypatch.setattr(
        sys, "argv", ["bench_vector", "--only", "CartPole, 64", "--json", str(out), "--strict"]
    )
    assert bench_vector.main() == 0
    printed = capsys.readouterr().out
    assert "pass  CartPole, 64 lanes: 1 worker / sync: 1.1 (>= 1)" in printed
    assert [args[2:4] for args in asked] == [["CartPole", "64"], ["CartPole", "64"]]
    assert '"1 worker"' in out.read_text(encoding="utf-8")
