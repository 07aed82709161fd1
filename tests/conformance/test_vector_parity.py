"""Eight remote lanes give the same bytes as SyncVectorEnv, wherever they are and however they are reset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from openenv_gym.servers.run import ServerThread
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.testing import difference
from openenv_gym.wrappers.vector import RemoteVectorEnv

from .subjects import SUBJECTS, Subject

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(7200),
    pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*arrives as:UserWarning"),
]

LANES = 8
#: CarRacing takes a tenth of a second a step.
STEPS = {"CarRacing-v3": 40}
#: Gymnasium itself cannot batch these, or reads attributes between steps that a batch has not.
UNBATCHED = {
    "SpaceEnv-dict_empty",
    "SpaceEnv-json",
    "SpaceEnv-sequence_stacked",
    "SpaceEnv-tuple_empty",
    "RewardEnv-array",
    "InfoEnv-exact",
    "MaskedEnv-True",
    "FrameListEnv-rgb_array_list",
}


class Cell(NamedTuple):
    """How lanes are spread and reset."""

    servers: int
    workers: int
    mode: AutoresetMode

    def __str__(self) -> str:
        return f"{self.servers}-{self.workers}-{self.mode.value}"


CELLS = [Cell(servers, workers, mode) for servers in (1, 2) for workers in (1, 2) for mode in AutoresetMode]
BATCHED = [subject for subject in SUBJECTS if subject.name not in UNBATCHED]
_OTHERS = BATCHED[-1].target

Places = Callable[[str, int, int], list[str]]


def sample(number: int) -> Cell:
    """Return the cell for a subject of the sample: neighbours differ in all that can differ."""
    return CELLS[number * 5 % len(CELLS)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """Return the addresses of servers that host any test environment, and start those that are new."""
    with ExitStack() as stack:
        known: dict[tuple[int, int], list[str]] = {}

        def places(target: str, servers: int, workers: int) -> list[str]:
            key = servers, workers
            if key not in known:
                known[key] = start(stack, target, servers, workers, tmp_path_factory.mktemp("s"))
            return known[key]

        yield places


def start(stack: ExitStack, target: str, servers: int, workers: int, folder: Path) -> list[str]:
    urls = []
    for number in range(servers):
        settings = ServerSettings(workers=workers, uds=str(folder / f"{servers}{workers}{number}"))
        urls.append(stack.enter_context(ServerThread(settings, target)).base_url)
    return urls


def make_remote(subject: Subject, urls: list[str], mode: AutoresetMode) -> RemoteVectorEnv:
    about: dict[str, Any] = {"base_url": urls, "autoreset_mode": mode, "render_mode": subject.render_mode}
    if subject.env_id is None:
        return RemoteVectorEnv(num_envs=LANES, env_kwargs=subject.kwargs, **about)
    envs = gym.make_vec(f"remote/{subject.env_id}", num_envs=LANES, **about, **subject.kwargs)
    assert isinstance(envs, RemoteVectorEnv)
    return envs


def compare(subject: Subject, cell: Cell, urls: list[str]) -> int:
    """Step both sides with the same actions; return how many episodes ended."""
    with ExitStack() as stack:
        remote = make_remote(subject, urls, cell.mode)
        stack.callback(remote.close)
        local = SyncVectorEnv([subject.local] * LANES, autoreset_mode=cell.mode)
        stack.callback(local.close)
        assert len(remote.base_url) == cell.servers
        local.action_space.seed(3)
        agree(remote.reset(seed=11), local.reset(seed=11), "reset")
        ends = 0
        for step in range(STEPS.get(subject.name, 500)):
            actions = local.action_space.sample()
            result = local.step(actions)
            agree(remote.step(actions), result, f"step {step}")
            ended = result[2] | result[3]
            ends += int(ended.sum())
            if cell.mode is AutoresetMode.DISABLED and ended.any():
                mask = {"reset_mask": ended}
                agree(remote.reset(options=dict(mask)), local.reset(options=dict(mask)), f"reset {step}")
            if step == 250:
                odd = {"reset_mask": np.arange(LANES) % 2 == 1}
                agree(remote.reset(seed=5, options=dict(odd)), local.reset(seed=5, options=dict(odd)), "odd")
        return ends


def agree(remote: tuple[Any, ...], local: tuple[Any, ...], where: str) -> None:
    text = difference(remote, local, where)
    assert text is None, text


@pytest.mark.parametrize(("number", "subject"), list(enumerate(BATCHED)), ids=str)
def test_a_sample_of_rollouts_is_the_same(
    number: int, subject: Subject, shared: Places, tmp_path: Path
) -> None:
    cell = sample(number)
    with ExitStack() as stack:
        if subject.target == _OTHERS:
            urls = shared(_OTHERS, cell.servers, cell.workers)
        else:
            urls = start(stack, subject.target, cell.servers, cell.workers, tmp_path)
        compare(subject, cell, urls)


def test_the_sample_meets_every_cell() -> None:
    assert {sample(number) for number in range(len(CELLS))} == set(CELLS)
    assert len(BATCHED) >= len(CELLS)


def test_every_rollout_is_the_same_everywhere(
    shared: Places, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agreed, ends, differences = Counter[Any](), 0, []
    for at, subject in enumerate(BATCHED):
        with ExitStack() as stack:
            known: dict[tuple[int, int], list[str]] = {}
            for cell in CELLS:
                key = cell.servers, cell.workers
                if subject.target == _OTHERS:
                    known[key] = shared(_OTHERS, *key)
                elif key not in known:
                    folder = tmp_path / str(at)
                    folder.mkdir(exist_ok=True)
                    known[key] = start(stack, subject.target, *key, folder)
                try:
                    ends += compare(subject, cell, known[key])
                except Exception as exc:
                    differences.append(f"{subject} {cell}: {type(exc).__name__}: {exc}")
                else:
                    agreed[subject.group, cell] += 1
    with capsys.disabled():
        print("", *_table(agreed), f"{ends} episodes ended on the way", *differences, sep="\n")
    assert differences == []


def _table(agreed: Counter[Any]) -> Iterator[str]:
    """Yield the lines of a table: subjects that agree of those there are, by group and cell."""
    groups = Counter(subject.group for subject in BATCHED)
    for name, shown in (("servers", 0), ("workers", 1), ("mode", 2)):
        cells = (cell[shown] for cell in CELLS)
        yield f"{name:<16}" + "".join(f"{getattr(value, 'value', value):>10}" for value in cells)
    for group, size in groups.items():
        yield f"{group:<16}" + "".join(f"{agreed[group, cell]:>6}/{size:<3}" for cell in CELLS)


def test_what_is_left_out_cannot_be_batched() -> None:
    assert {subject.name for subject in SUBJECTS} >= UNBATCHED
