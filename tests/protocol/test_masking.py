from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import PathFinder

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.utils import apply_mask as reference

from openenv_gym.protocol import masking


@given(st.binary(max_size=300), st.binary(min_size=4, max_size=4))
def test_masks_as_websockets_does_and_back(data: bytes, key: bytes) -> None:
    masked = masking.apply_mask(data, key)
    assert masked == reference(data, key)
    assert masking.apply_mask(bytearray(masked), key) == data
    assert masking._apply_mask(memoryview(data), bytearray(key)) == masked


@pytest.mark.parametrize("missing", ["package", "extension"])
def test_falls_back_where_the_extension_is_missing(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing == "package":
        monkeypatch.setattr(masking, "find_spec", lambda name: None)
    else:
        monkeypatch.setattr(PathFinder, "find_spec", lambda name, places: None)
    assert masking._load() is masking._apply_mask


def test_falls_back_where_the_extension_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(spec: object) -> None:
        raise ImportError("wrong architecture")

    monkeypatch.setattr(masking, "module_from_spec", broken)
    assert masking._load() is masking._apply_mask


def test_import_leaves_the_websockets_package_alone() -> None:
    code = (
        "import sys; from openenv_gym.protocol import masking;"
        " assert masking.apply_mask is not masking._apply_mask; assert 'websockets' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_keys_are_four_bytes_and_not_repeated() -> None:
    keys = [masking.masking_key() for _ in range(2000)]
    assert {len(key) for key in keys} == {4}
    assert len(set(keys)) > 1990  # 32 random bits: now and then two are alike


def test_keys_come_from_the_system_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_KEYS", [])
    asked: list[int] = []

    def urandom(size: int) -> bytes:
        asked.append(size)
        return bytes(i // 4 for i in range(size))

    monkeypatch.setattr(os, "urandom", urandom)
    keys = [masking.masking_key() for _ in range(512)]
    assert asked == [1024, 1024]
    assert sorted(keys) == sorted(bytes([i]) * 4 for i in range(256) for _ in range(2))


def test_a_forked_child_draws_its_own_keys() -> None:
    while not masking._KEYS:
        masking.masking_key()
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writable, masking.masking_key())
        os._exit(0)
    os.close(writable)
    with open(readable, "rb") as pipe:
        key = pipe.read()
    os.waitpid(pid, 0)
    assert len(key) == 4
    assert key not in masking._KEYS
