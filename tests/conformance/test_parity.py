"""The same seed and actions give the same bytes remotely and locally, whatever the server is like."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from openenv_gym.env import RemoteEnv
from openenv_gym.protocol.values import Opaque
from openenv_gym.testing import Agreement, check_remote, difference
from tests.support.infozoo import MAPPED, OPAQUE
from tests.support.shapeenvs import InfoEnv

from .serving import CELLS, PAIRS, Cell, serve
from .subjects import SMALL, SUBJECTS, Subject

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")

Served = Callable[[Cell], str]
_TARGET = SUBJECTS[-1].target

#: Two opposite cells for each subject, so that it meets every worker, path and address.
SAMPLE = [
    pytest.param(subject, cell, id=f"{subject}-{cell}")
    for number, subject in enumerate(SUBJECTS)
    for cell in PAIRS[number % len(PAIRS)]
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return the base URL of a server of the given make that hosts any test environment."""
    with ExitStack() as stack:
        urls: dict[Cell, str] = {}

        def url_of(cell: Cell) -> str:
            if cell not in urls:
                urls[cell] = stack.enter_context(serve(_TARGET, cell, tmp_path_factory.mktemp("s")))
            return urls[cell]

        yield url_of


@contextmanager
def base_url(subject: Subject, cell: Cell, served: Served, folder: Path) -> Iterator[str]:
    if subject.env_id is None:
        yield served(cell)
    else:
        with serve(subject.target, cell, folder) as url:
            yield url


def compare(subject: Subject, url: str, frames: int) -> Agreement:
    with ExitStack() as stack:
        remote, local = subject.remote(url), subject.local()
        stack.callback(local.close)
        stack.callback(remote.close)
        policy = subject.policy(remote, local)
        return check_remote(remote, local, steps=300, seed=11, frames=frames, policy=policy)


@pytest.mark.parametrize(("subject", "cell"), SAMPLE)
def test_a_rollout_is_the_same(subject: Subject, cell: Cell, served: Served, tmp_path: Path) -> None:
    with base_url(subject, cell, served, tmp_path) as url:
        # Drawing is slow without a graphics card.
        agreement = compare(subject, url, subject.frames // (1 if cell.worker == "process" else 5))
    assert agreement.steps == 300


def test_the_sample_meets_every_two() -> None:
    sample = [param.values for param in SAMPLE]
    for subject in SUBJECTS:
        cells = [cell for other, cell in sample if other is subject]
        assert [len(set(values)) for values in zip(*cells, strict=True)] == [2, 2, 2]
    assert {cell for _, cell in sample} == set(CELLS)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_every_rollout_is_the_same_everywhere(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agreed, steps, frames, differences = Counter[Any](), 0, 0, []
    for subject in SUBJECTS:
        if subject.kwargs == SMALL:
            subject = replace(subject, kwargs={})
        for cell in CELLS:
            try:
                with base_url(subject, cell, served, tmp_path) as url:
                    agreement = compare(subject, url, subject.frames)
            except Exception as exc:
                differences.append(f"{subject} {cell}: {type(exc).__name__}: {exc}")
            else:
                agreed[subject.group, cell] += 1
                steps, frames = steps + agreement.steps, frames + agreement.frames
    with capsys.disabled():
        print("", *_table(agreed), f"{steps} steps and {frames} frames agree", *differences, sep="\n")
    assert differences == []


def _table(agreed: Counter[Any]) -> Iterator[str]:
    """Yield the lines of a table: subjects that agree of those there are, by group and cell."""
    groups = Counter(subject.group for subject in SUBJECTS)
    for depth, heading in enumerate(("worker", "path", "address")):
        yield f"{heading:<16}" + "".join(f"{cell[depth]:>10}" for cell in CELLS)
    for group, size in groups.items():
        yield f"{group:<16}" + "".join(f"{agreed[group, cell]:>6}/{size:<3}" for cell in CELLS)


# -- infos that do not arrive as they left


def infos(served: Served, group: str, cell: Cell, steps: int) -> list[dict[str, Any]]:
    env = RemoteEnv(base_url=served(cell), env_kwargs={"name": "InfoEnv", "group": group})
    try:
        return [env.reset()[1], *(env.step(0)[4] for _ in range(steps))]
    finally:
        env.close()


@pytest.mark.parametrize("cell", PAIRS[0], ids=str)
def test_mapped_infos_arrive_as_documented(served: Served, cell: Cell) -> None:
    expected = {name: due for name, (_, due) in MAPPED.items()}
    first, *others = infos(served, "mapped", cell, len(MAPPED))
    assert difference(first, expected) is None
    assert difference({name: value for info in others for name, value in info.items()}, expected) is None


@pytest.mark.parametrize("cell", PAIRS[1], ids=str)
def test_what_cannot_be_carried_arrives_as_its_type_and_repr(served: Served, cell: Cell) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # once a process, in whichever test comes first
        first, *_ = infos(served, "opaque", cell, len(OPAQUE))
    assert list(first) == list(InfoEnv.GROUPS["opaque"])
    inside = first.pop("inside")
    assert all(type(value) is Opaque for value in first.values())
    assert first["object"].repr == "<Handle of the simulator>"
    assert first["object"].type_name.endswith("Handle")
    assert type(inside["a"][1]) is Opaque and inside["a"][0] == 1


def test_the_same_env_object_gives_the_same_again(served: Served) -> None:
    subject = next(subject for subject in SUBJECTS if subject.name == "SpaceEnv-nested")
    remote, local = subject.remote(served(CELLS[0])), subject.local()
    for _ in range(2):
        check_remote(remote, local, steps=30, seed=5)
    remote.close()


def test_two_clients_of_one_worker_do_not_meet(served: Served) -> None:
    subject = next(subject for subject in SUBJECTS if subject.name == "SpaceEnv-nested")
    url = served(CELLS[0].opposite)
    envs: list[gym.Env[Any, Any]] = [subject.remote(url) for _ in range(2)]
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
    for seed, env in enumerate(envs):
        check_remote(env, subject.local(), steps=20, seed=seed)
        env.close()
