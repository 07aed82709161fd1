from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openenv_gym.errors import ConfigError
from openenv_gym.protocol.values import pack
from openenv_gym.testing import difference
from openenv_gym.wrappers.trajectory import (
    Header,
    RaisedCall,
    ResetCall,
    StepCall,
    Trajectory,
    TrajectoryWriter,
    carried,
)
from tests.support.infozoo import EXACT, OPAQUE

HEADER = Header(kind="env", spec='{"id": "x"}', versions={"numpy": "2"})
RESULT = (np.arange(3, dtype=np.int16), np.float32(1.5), np.bool_(True), False, {"x": (1, None)})


def written(folder: Path, steps: int = 2) -> Path:
    writer = TrajectoryWriter(folder, "t", HEADER)
    writer.reset([7, {"a": 1}], (np.zeros(2), {}))
    for _ in range(steps):
        writer.step([pack(np.int64(4))], RESULT)
    writer.raised("step", [9], ValueError("too far"))
    writer.close()
    return writer.path


def test_calls_come_back_bit_for_bit(tmp_path: Path) -> None:
    trajectory = Trajectory(written(tmp_path))
    reset, step, again, raised = trajectory
    assert trajectory.header == HEADER
    assert not trajectory.cut
    assert isinstance(reset, ResetCall)
    assert difference((reset.seed, reset.options, reset.result), (7, {"a": 1}, [np.zeros(2), {}])) is None
    assert isinstance(step, StepCall)
    assert difference((step.action, step.result), (np.int64(4), list(RESULT))) is None
    assert isinstance(again, StepCall)
    assert raised == RaisedCall(call="step", given=[9], error="ValueError: too far")


def test_the_beginning_of_a_file_is_pinned(tmp_path: Path) -> None:
    data = written(tmp_path).read_bytes()
    assert data.startswith(b"openenv-trajectory 1\n")
    size = int.from_bytes(data[21:25], "little")
    header = {"type": "header", "kind": "env", "spec": '{"id": "x"}', "versions": {"numpy": "2"}}
    assert msgspec.msgpack.decode(data[25 : 25 + size]) == header
    first = data[25 + size :]
    size = int.from_bytes(first[:4], "little")
    record = msgspec.msgpack.decode(first[4 : 4 + size], ext_hook=lambda code, data: (code, len(data)))
    assert record == {"type": "reset", "result": [(14, 29), {}], "seed": 7, "options": {"a": 1}}


def test_each_file_has_a_name_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert [written(folder).name for _ in range(3)] == ["t-0.trajectory", "t-1.trajectory", "t-2.trajectory"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kept=st.floats(0, 1))
def test_a_file_cut_anywhere_has_the_calls_before_the_cut(tmp_path: Path, kept: float) -> None:
    whole = written(tmp_path, steps=3)
    everything = list(Trajectory(whole))
    data = whole.read_bytes()
    header = 25 + int.from_bytes(data[21:25], "little")
    cut = tmp_path / "cut"
    size = header + round(kept * (len(data) - header))
    cut.write_bytes(data[:size])
    trajectory = Trajectory(cut)
    calls = list(trajectory)
    assert (
        difference([repr(call) for call in calls], [repr(call) for call in everything[: len(calls)]]) is None
    )
    ends = [header]
    while ends[-1] < len(data):
        ends.append(ends[-1] + 4 + int.from_bytes(data[ends[-1] : ends[-1] + 4], "little"))
    assert trajectory.cut is (size not in ends)
    assert len(calls) == sum(end <= size for end in ends[1:])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is no trajectory of version 1: it is none"),
        (b"PK\x03\x04 something else entirely\n", "it is none"),
        (b"openenv-trajectory 2\n", "it has version 2"),
        (b"openenv-trajectory 1\n", "has no header"),
        (b"openenv-trajectory 1\n\xff\xff\xff\xff", "has no header"),
        (b"openenv-trajectory 1\n\x01\0\0\0\xc1", "holds a malformed record"),
        (b"openenv-trajectory 1\n\x08\0\0\0\x81\xa4type\xa1x", "holds a malformed record"),
    ],
)
def test_other_files_are_refused(data: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=says):
        Trajectory(path)


def test_unknown_fields_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    record = msgspec.msgpack.encode({"type": "step", "action": 1, "result": [], "mood": "fine"})
    path.write_bytes(path.read_bytes() + len(record).to_bytes(4, "little") + record)
    with pytest.raises(ConfigError, match="unknown field `mood`"):
        list(Trajectory(path))


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Trajectory(tmp_path / "none")


@pytest.mark.parametrize("name", EXACT)
def test_values_come_back_as_they_are(name: str) -> None:
    assert difference(carried(EXACT[name]), EXACT[name]) is None


@pytest.mark.filterwarnings("ignore:a value of type:UserWarning")
def test_what_has_no_form_is_the_same_wherever_it_lies_in_memory() -> None:
    class Handle:
        pass

    assert carried(Handle()) == carried(Handle())
    assert " at 0x" not in carried(Handle()).repr
    deep = {"a": [(Handle(),), np.array([Handle()], object)]}
    assert difference(carried(deep), carried({"a": [(Handle(),), np.array([Handle()], object)]})) is None
    assert difference(carried(dict(OPAQUE)), carried(dict(OPAQUE))) is None
