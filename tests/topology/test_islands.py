"""What annotations say about which devices are near one another."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.inventory import InventorySettings, describe
from topology.islands import islands
from topology.node import NodeFacts

OURS = "tangram.scheduler/node-gpu-islands"
HAMI = "hami.io/node-nvidia-register"
CARD = "10,81559,100,NVIDIA-NVIDIA H100 80GB HBM3"
JSON = json.dumps(
    [
        {"id": "GPU-c", "index": 2, "numa": 1, "count": 10, "devmem": 81559, "health": True},
        {"id": "GPU-a", "count": 10, "devmem": 81559, "health": True},
        {"id": "GPU-b", "index": 1, "count": 10, "devmem": 81559},
        {"id": "GPU-d", "index": 3, "numa": 1, "count": 10, "devmem": 81559, "health": True},
    ]
)


def read(key: str, text: str, rows: int = 4) -> tuple[list[int], list[str]]:
    """Islands and warnings."""
    warnings: list[str] = []
    return list(islands({key: text}, rows, warnings)), warnings


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        (OURS, "0,0,1,1", [0, 0, 1, 1]),
        (OURS, " 3, 1,3 ,1 ", [3, 1, 3, 1]),
        (OURS, "", [0, 0, 0, 0]),
        (HAMI, JSON, [0, 0, 1, 1]),
        (HAMI, "".join(f"GPU-{i},{CARD},{numa},true,{i},hami-core:" for i, numa in enumerate("1001")), [1, 0, 0, 1]),
        ("example.com/islands", "0,0,1,1", [0, 0, 0, 0]),
    ],
)
def test_islands_by_index(key: str, text: str, expected: list[int]) -> None:
    """In either spelling, and 0 where nobody says anything."""
    assert read(key, text) == (expected, [])


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        (OURS, "0,0,1", "3 islands for 4 devices"),
        (OURS, "0,0,,1", "'' is no number"),
        (OURS, "0,0,-1,1", "'-1' is no number"),
        (OURS, "0,0,10000,1", "'10000' is no number"),
        (OURS, "0,0,²,1", "'²' is no number"),
        (HAMI, "[{", "no JSON"),
        (HAMI, "[1]", "no list of devices"),
        (HAMI, '[{"index":0},{"index":0}]', "stands twice"),
        (HAMI, '[{"index":0,"numa":true}]', "'True' is no number"),
        (HAMI, '[{"index":0},{"index":1,"numa":1}]', "it lists 2 devices"),
        (HAMI, f"GPU-a,{CARD},0,true:", "no index"),
        (HAMI, "GPU-a,1:", "other than 9 fields"),
    ],
)
def test_what_cannot_be_believed_is_told(key: str, text: str, problem: str) -> None:
    """And changes nothing."""
    found, warnings = read(key, text)
    assert found == [0, 0, 0, 0]
    (warning,) = warnings
    assert warning.startswith(f"annotation {key}: ")
    assert problem in warning


def test_ours_goes_before_hamis() -> None:
    """An administrator knows better, unless it is nonsense."""
    assert list(islands({OURS: "0,1,2,3", HAMI: JSON}, 4, [])) == [0, 1, 2, 3]
    assert list(islands({OURS: "x", HAMI: JSON}, 4, [])) == [0, 0, 1, 1]


@given(text=st.text(), key=st.sampled_from([OURS, HAMI]), rows=st.integers(1, 4))
def test_no_text_makes_it_fail(text: str, key: str, rows: int) -> None:
    """One island for each device, whatever stands there."""
    assert len(read(key, text, rows)[0]) == rows


def test_devices_know_their_islands() -> None:
    """From the node's annotations."""
    amounts = {"nvidia.com/gpu": 4}
    node = describe(
        NodeFacts("n1", annotations={OURS: "0,0,1,1"}, capacity=amounts, allocatable=amounts), InventorySettings()
    )
    assert [device.island for device in node.devices] == [0, 0, 1, 1]
