"""The same frames and requests to the openenv package's server and to ours, side by side, and compared."""

from __future__ import annotations

import pytest

from .exchanges import EXCHANGES, Exchange
from .wire import differences, judged, play

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange.name)
def test_answers_are_alike(exchange: Exchange, theirs: dict[str, str], ours: dict[str, str]) -> None:
    expected = play(theirs[exchange.kind], exchange.steps)
    got = play(ours[exchange.kind], exchange.steps)
    assert judged(exchange.steps, expected, got) == []


def test_the_comparison_sees_what_matters() -> None:
    said = {
        "frame": {"type": "observation", "data": {"observation": {"a": 1}, "reward": None, "done": False}}
    }

    def with_data(**changes: object) -> dict[str, object]:
        return {"frame": {"type": "observation", "data": {**said["frame"]["data"], **changes}}}  # type: ignore[dict-item]

    assert differences(said, with_data(terminated=False, metadata={})) == []
    for change in (
        {"observation": {"a": 1, "b": 2}},
        {"observation": {}},
        {"observation": {"a": 1.0}},
        {"reward": 0.0},
        {"done": 0},
    ):
        assert len(differences(said, with_data(**change))) == 1, change
    assert differences({"closed": 1000}, {"closed": 1011}) != []
    assert (
        differences({"status": 422, "body": {"detail": [{}]}}, {"status": 422, "body": {"detail": []}}) != []
    )
