"""Pictures: they are what they say, say the same each time, and have words for what they show."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from scheduler.packing.named import policy_named
from scheduler.simulate import openb
from scheduler.simulate.plots import COLOURS, KINDS, PlotError, save, save_all
from scheduler.simulate.run import Simulation
from tests.simulate.tiny_openb import tiny_openb

PNG = b"\x89PNG\r\n\x1a\n"
HOUR = 3_600_000


def result(policy: str = "rsv", **other: Any) -> dict[str, Any]:
    """Two days of three queues, as JSON has them."""
    series = [
        {
            "atMs": 6 * HOUR * at,
            "arrivedGpuMilli": 4000 * at,
            "wantedGpuMilli": 9000 * at,
            "allocatedGpuMilli": 3000 + 500 * at,
            "fragmentedGpuMilli": None if at == 0 else 100 * at,
            "byQueueGpuMilli": {"research": 1000 + 500 * at, "serving": 2000, "idle": 0},
        }
        for at in range(8)
    ]
    waits = {"1 share": _waits(0, 30_000, 500_000), "2 one GPU": _waits(4000, 2 * HOUR, 50 * HOUR)}
    return {
        "scenario": "two-days",
        "policy": policy,
        "seed": 1,
        "candidates": None,
        "gpuCapacityMilli": 8000,
        "series": series,
        "waitsMs": waits,
    } | other


def _waits(p50: int, p95: int, longest: int) -> dict[str, int]:
    return {"jobs": 9, "mean": p50, "p50": p50, "p95": p95, "max": longest}


def words(path: Path) -> set[str]:
    """All texts of an SVG file."""
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return {"".join(element.itertext()).strip() for element in root.iter("{http://www.w3.org/2000/svg}text")}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("allocation", {"Allocation: two-days", "rsv", "fgd", "rsv: demand", "time, in hours"}),
        ("fragmentation", {"Fragmentation: two-days", "rsv", "fgd", "free GPUs of no use to the demand, in % of all"}),
        (
            "waiting",
            {"Waiting time: two-days", "share", "one GPU", "1 day", "rsv (95 of 100 wait less)", "longest wait"},
        ),
        (
            "fairness",
            {"Use by queue: two-days", "research", "serving", "idle", "all GPUs", "GPUs in use", "rsv", "fgd"},
        ),
    ],
)
def test_every_picture_says_what_it_shows(kind: str, expected: set[str], tmp_path: Path) -> None:
    path = save([result("rsv"), result("fgd")], tmp_path / "new" / f"{kind}.svg", kind)
    assert expected <= words(path)


@pytest.mark.parametrize("ending", [".svg", ".png"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_results_give_the_same_bytes(kind: str, ending: str, tmp_path: Path) -> None:
    first, second = (
        save([result("rsv"), result("fgd")], tmp_path / f"{at}{ending}", kind).read_bytes() for at in range(2)
    )
    assert first == second
    assert first.startswith(PNG if ending == ".png" else b"<?xml")
    assert b"date" not in first.lower()


def test_settings_of_others_change_nothing(tmp_path: Path) -> None:
    import matplotlib

    first = save([result()], tmp_path / "1.svg", "allocation").read_bytes()
    with matplotlib.rc_context({"lines.linewidth": 9.0, "svg.fonttype": "path"}):
        assert save([result()], tmp_path / "2.svg", "allocation").read_bytes() == first
        assert matplotlib.rcParams["lines.linewidth"] == 9.0


def test_inflation_is_drawn_over_demand(tmp_path: Path) -> None:
    folder = tiny_openb(tmp_path / "openb")
    results = [
        Simulation(openb.inflation("default", seed, folder), policy_named(policy), policy).run().to_dict()
        for policy in ("bestfit", "fgd")
        for seed in (1, 2)
    ]
    paths = save_all(results, tmp_path / "out")
    assert [path.name for path in paths] == ["allocation.svg", "fragmentation.svg"]
    for path in paths:
        assert {"demand that came, in % of all GPUs", "bestfit, seed 1", "fgd, seed 2"} <= words(path)
    assert "all that came" in words(paths[0])


def test_all_is_what_something_is_known_of(tmp_path: Path) -> None:
    assert [path.name for path in save_all([result()], tmp_path, "png")] == [f"{kind}.png" for kind in KINDS]
    assert all(path.read_bytes().startswith(PNG) for path in tmp_path.iterdir())
    without = [_without_queues(sample) for sample in result()["series"]]
    names = [path.name for path in save_all([result(series=without, waitsMs={})], tmp_path / "less", ".svg")]
    assert names == ["allocation.svg", "fragmentation.svg"]
    assert save_all([], tmp_path) == []


def _without_queues(sample: Mapping[str, Any]) -> dict[str, Any]:
    return {**sample, "byQueueGpuMilli": {}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "results", [[], [result(series=[], waitsMs={})], [result(curve=[None] * 131, series=[], waitsMs={})]]
)
def test_where_nothing_is_known_the_picture_says_so(kind: str, results: list[dict[str, Any]], tmp_path: Path) -> None:
    assert f"nothing is known of {kind}" in words(save(results, tmp_path / "a.svg", kind))


@pytest.mark.parametrize("kind", KINDS)
def test_one_of_two_may_be_empty(kind: str, tmp_path: Path) -> None:
    empty = result("fgd", series=[], waitsMs={}, gpuCapacityMilli=0)
    assert any(word.startswith("fgd") for word in words(save([result(), empty], tmp_path / "a.svg", kind)))


def test_many_queues_are_joined_and_many_results_told_apart(tmp_path: Path) -> None:
    series = [
        {**sample, "byQueueGpuMilli": {f"q{at:02}": 10 + at for at in range(12)}} for sample in result()["series"]
    ]
    found = words(save([result(series=series)], tmp_path / "queues.svg", "fairness"))
    assert {"q05", "q11", "others"} <= found
    assert "q04" not in found
    many = [result(f"policy-{at}") for at in range(len(COLOURS) + 1)]
    assert "stroke-dasharray" in save(many, tmp_path / "many.svg", "fragmentation").read_text()


def test_names_of_results_say_what_differs(tmp_path: Path) -> None:
    results = [result(seed=1), result(seed=2, candidates=60, scenario="three-days")]
    found = words(save(results, tmp_path / "a.svg", "fragmentation"))
    assert {"rsv, two-days, seed 1, sees all", "rsv, three-days, seed 2, sees 60"} <= found
    assert "Fragmentation: two-days, three-days" in found


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlotError, match=r"a\.pdf: pictures are \.svg or \.png"):
        save([result()], tmp_path / "a.pdf", "allocation")
    with pytest.raises(PlotError, match="pictures are"):
        save_all([result()], tmp_path, "jpeg")
    with pytest.raises(PlotError, match="allocation, fragmentation, waiting, fairness are"):
        save([result()], tmp_path / "a.svg", "beauty")
    (tmp_path / "file").touch()
    with pytest.raises(PlotError, match=r"exists|directory"):
        save([result()], tmp_path / "file" / "a.svg", "allocation")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PlotError, match=r"tangram-scheduler\[plots\]"):
        save([result()], tmp_path / "a.svg", "allocation")
