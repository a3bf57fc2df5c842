"""The openb experiments: the data as it is known to be, the order of things, and the published curves."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from scheduler.packing.named import policy_named
from scheduler.simulate import openb
from scheduler.simulate.openb import FOLDER, TRACES, TraceError, churn, inflation, read
from scheduler.simulate.result import Result
from scheduler.simulate.run import Simulation
from scheduler.simulate.scenario import Scenario
from tests.simulate.naive import wish_of
from topology.inventory import InventorySettings, ShareSupport, describe

EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text())
PUBLISHED = {
    "dotprod": "02-DotProd",
    "gpu-clustering": "03-GpuClustering",
    "gpu-packing": "04-GpuPacking",
    "bestfit": "05-BestFit",
    "fgd": "06-FGD",
}


def simulate(scenario: Scenario, policy: str, candidates: int | None = None) -> Result:
    return Simulation(scenario, policy_named(policy), policy, candidates=candidates).run()


# -- the data ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("trace", TRACES)
def test_every_trace_has_its_pods_classes_and_arrivals(trace: str) -> None:
    known, found, scenario = EXPECTED["traces"][trace], read(trace), inflation(trace, 42)
    assert (len(found.rows), len(found.classes)) == (known["pods"], known["classes"])
    demand = sum(one.devices * one.milli for one in (found.classes[at] for at in rows_of(trace, 42)))
    assert (len(scenario.jobs), demand) == (known["arrivals_seed42"], known["demand_milli_seed42"])


def rows_of(trace: str, seed: int) -> list[int]:
    """Classes in the order of arrival, from the pods of the scenario."""
    classes = {(one.cpu_milli, one.memory_bytes, one.devices, one.milli, one.models): at
               for at, one in enumerate(read(trace).classes)}  # fmt: skip
    found = []
    for job in inflation(trace, seed).jobs:
        wish = wish_of(job.pods[0])
        devices = wish.whole or int(wish.share_milli > 0)
        milli = wish.share_milli or 1000 * (wish.whole > 0)
        models = None if wish.products is None else frozenset(wish.products)
        found.append(classes[wish.cpu_milli, wish.memory, devices, milli, models])
    return found


def test_classes_stand_in_the_order_of_their_first_appearance() -> None:
    classes = read("default").classes
    first = [(one.cpu_milli, one.memory_bytes >> 20, one.devices, one.milli) for one in classes[:5]]
    assert first == [
        (12000, 16384, 1, 1000),
        (6000, 12288, 1, 460),
        (12000, 24576, 1, 1000),
        (20000, 65536, 0, 0),
        (4000, 16384, 1, 1000),
    ]
    mix = read("default").mix
    largest = sorted(zip(mix.demand, classes, strict=True), reverse=True)[:2]
    assert [(count, one.cpu_milli, one.milli) for count, one in largest] == [(1047, 3152, 810), (857, 11300, 1000)]


def test_models_of_a_class_become_a_rule_of_the_pod() -> None:
    trace, scenario = read("gpuspec33"), inflation("gpuspec33", 42)
    assert sum(trace.mix.demand[at] for at, one in enumerate(trace.classes) if one.models is not None) == 2388
    assert all(one.models == frozenset(one.spec.split("|")) for one in trace.classes if one.spec)
    counts = Counter(trace.classes[at].models for at in rows_of("gpuspec33", 42))
    assert len(counts) > 10
    assert any(wish_of(job.pods[0]).products for job in scenario.jobs)


def test_nodes_stand_in_the_order_of_their_places() -> None:
    nodes = inflation("default", 42).nodes
    names = [facts.name for facts in nodes]
    assert [name[6:] for name in names[:5]] == [
        f"openb-node-{number}" for number in ("0260", "0858", "0619", "0582", "0882")
    ]
    assert names == sorted(names)
    assert sorted(name[6:] for name in names) == [row[0] for row in read("default").nodes]


def test_nodes_are_read_with_their_devices() -> None:
    inventories = [
        describe(facts, InventorySettings(shares_by_default=True)) for facts in inflation("default", 42).nodes
    ]
    models = Counter[str]()
    for one in inventories:
        assert one.shares is ShareSupport.YES
        assert not one.warnings
        models[str(one.product)] += len(one.devices)
    assert models == {"G2": 4392, "T4": 842, "G3": 312, "P100": 265, "V100M32": 204, "V100M16": 195, "A10": 2}


def test_seeds_on_record() -> None:
    assert openb.published_seeds("default") == [*range(42, 52), *range(100, 110)]
    assert openb.published_seeds("cpu050") == list(range(42, 52))


@pytest.mark.parametrize("trace", ["default", "multigpu50"])
def test_other_seeds_follow_the_same_rules(trace: str) -> None:
    """All pods and copies up to 130 percent; of a trace that asks for more, some of the pods."""
    one, again, other = inflation(trace, 7), inflation(trace, 7), inflation(trace, 8)
    assert one == again
    assert [job.pods[0].containers for job in one.jobs] != [job.pods[0].containers for job in other.jobs]
    assert [facts.name[6:] for facts in one.nodes] != [facts.name[6:] for facts in other.nodes]
    found = read(trace)
    demand = sum(found.classes[at].devices * found.classes[at].milli for at in rows_of(trace, 7))
    limit = found.capacity_milli * 130 // 100
    assert limit - 8000 < demand <= limit
    counts, demanded = Counter(rows_of(trace, 7)), Counter(found.rows)
    assert counts - demanded if trace == "default" else not counts - demanded


@pytest.mark.parametrize(
    ("name", "seed", "problem"),
    [("nonsense", 42, 'there is no trace "nonsense": default, cpu050'), ("cpu0", 42, 'there is no trace "cpu0"')],
)
def test_what_there_is_not(name: str, seed: int, problem: str) -> None:
    with pytest.raises(TraceError, match=problem):
        inflation(name, seed)


def test_a_folder_without_traces(tmp_path: Any) -> None:
    with pytest.raises(TraceError, match="checkout"):
        inflation("default", 42, tmp_path)


# -- inflation -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("policy", "trace", "seed"),
    [
        ("bestfit", "default", 42),
        ("fgd", "gpuspec33", 43),
        ("dotprod", "cpu250", 51),
        ("gpu-packing", "multigpu50", 45),
        ("gpu-clustering", "gpushare100", 47),
    ],
)
def test_published_curves_come_out(policy: str, trace: str, seed: int) -> None:
    """Each of the 131 points within a hundredth of a percent."""
    curve = simulate(inflation(trace, seed), policy).curve
    published = curve_of(trace, PUBLISHED[policy], seed)
    assert len(curve) == len(published) == 131
    for at, (ours, theirs) in enumerate(zip(curve, published, strict=True)):
        assert (ours is None) == (theirs is None), at
        assert ours == theirs or abs((ours or 0) - (theirs or 0)) < 0.0101, (at, ours, theirs)


def curve_of(trace: str, policy: str, seed: int) -> list[float | None]:
    with gzip.open(FOLDER / "analysis_allo_discrete.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            if (row["workload"], row["sc_policy"], row["seed"]) == (f"openb_pod_list_{trace}", policy, str(seed)):
                return [float(row[str(at)]) if row[str(at)] else None for at in range(131)]
    raise AssertionError("not published")


def test_few_candidates_cost_fgd_much() -> None:
    """A mean on record; with all nodes it is 95.35."""
    ends = [simulate(inflation("default", seed), "fgd", 20).end_gpu_allocation_percent for seed in (42, 43, 44)]
    assert sum(ends) / 3 == pytest.approx(EXPECTED["sampling"]["default"]["FGD"]["20"], abs=0.005)


# -- churn ---------------------------------------------------------------------------------------------------------
def test_churn_is_drawn_as_it_is_written_down() -> None:
    """The draws of the experiment, made here once more."""
    trace, scenario = read("multigpu50"), churn("multigpu50", 1, 1.0)
    asked = [one.devices * one.milli for one in trace.classes]
    mean = sum(asked[row] for row in trace.rows) / len(trace.rows)
    rate = 6_212_000 / mean
    count = int(4 * rate)
    rng = np.random.default_rng(1)
    classes = rng.choice(np.array(trace.rows), count)
    durations = rng.exponential(1, count)
    times = np.cumsum(rng.exponential(1 / rate, count))
    assert len(scenario.jobs) == count
    for at in (0, 1, 1000, count - 1):
        job, one = scenario.jobs[at], trace.classes[classes[at]]
        wish = wish_of(job.pods[0])
        assert (wish.cpu_milli, wish.memory) == (one.cpu_milli, one.memory_bytes)
        assert job.arrival_ms == round(times[at] * 1e9)
        assert job.duration_ms == round(durations[at] * 1e9)
    perm = np.random.default_rng(1).permutation(1213)
    assert [facts.name[6:] for facts in scenario.nodes[:50]] == [trace.nodes[row][0] for row in perm[:50]]
    result = simulate(scenario, "bestfit")
    kept = [at for at in range(count) if times[at] > 2]
    lost = {one.name for one in result.jobs if one.lost}
    work = [asked[classes[at]] * durations[at] for at in range(count)]
    served = sum(work[at] for at in kept if scenario.jobs[at].name not in lost)
    assert result.served_percent() == pytest.approx(100 * served / sum(work[at] for at in kept), abs=1e-4)
    eight = [at for at in kept if trace.classes[classes[at]].devices == 8]
    served = sum(work[at] for at in eight if scenario.jobs[at].name not in lost)
    assert result.served_percent(8) == pytest.approx(100 * served / sum(work[at] for at in eight), abs=1e-4)


@pytest.mark.parametrize("load", [0, -1, 11, float("nan")])
def test_loads_that_make_no_sense(load: float) -> None:
    with pytest.raises(TraceError, match="load"):
        churn("default", 0, load)
