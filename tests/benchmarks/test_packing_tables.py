"""The tables of the packing benchmark: what stands beside what."""

from __future__ import annotations

import json
from typing import Any

from benchmarks import packing, packing_tables
from benchmarks.packing_expected import Expected
from scheduler.simulate.openb import FOLDER, TRACES
from scheduler.simulate.task import Task, check

EXPECTED = Expected(FOLDER)


def result(end: float | None, last: float | None = None, **other: Any) -> dict[str, Any]:
    return {"endGpuAllocationPercent": end, "curve": [None] * 130 + [last], **other}


def test_the_whole_of_it_makes_sense_and_has_an_expected_number() -> None:
    parts = packing.parts(EXPECTED)
    assert {name: len(part.tasks) for name, part in parts.items()} == {
        "inflation": 17 * 10 * 7,
        "fresh": 6 * 10 * 3,
        "churn": 6 * 3 * 4 * 5,
        "sampling": 17 * 3 * 3,
    }
    for part in parts.values():
        for task in part.tasks:
            check(task)
    assert all(EXPECTED.allocation(task.trace, task.policy, task.seed) for task in parts["inflation"].tasks)
    assert all(EXPECTED.fresh(task.trace, task.policy) for task in parts["fresh"].tasks)
    assert all(EXPECTED.served(task.trace, task.policy, task.load or 0)[0] for task in parts["churn"].tasks)
    assert all(EXPECTED.sampled(task.trace, task.policy, task.candidates or 0) for task in parts["sampling"].tasks)
    quick = packing.parts(EXPECTED, quick=True)
    assert all(set(quick[name].tasks) < set(parts[name].tasks) for name in parts)
    assert {task.trace for task in quick["inflation"].tasks} == set(TRACES[:2])


def test_expected_numbers_are_read() -> None:
    assert EXPECTED.allocation("default", "fgd", 42) == 95.29
    assert EXPECTED.allocation("default", "rsv-max", 43) == 96.19
    assert EXPECTED.allocation("default", "rsv", 7) is None
    assert EXPECTED.allocation("default", "spread", 42) is None
    assert EXPECTED.fresh("default", "rsv") == 96.03
    assert EXPECTED.served("default", "fgd", 1.0) == (97.07, 61.5)
    assert EXPECTED.served("gpushare100", "fgd", 1.0)[1] is None
    assert EXPECTED.sampled("default", "rsv", 60) == 96.07


def test_policies_of_the_literature_are_compared_at_the_last_percent_of_demand_and_ours_at_the_end() -> None:
    results = {
        Task("inflation", "default", "fgd", 42): result(95.0, 95.2),
        Task("inflation", "default", "fgd", 43): result(95.0, 95.4),
        Task("inflation", "default", "rsv", 42): result(96.02, 1.0),
    }
    numbers, views = packing_tables.inflation(results, EXPECTED)
    assert numbers["allocation"]["default"] == {
        "fgd": {"ours": 95.3, "expected": 95.305, "largestDifference": 0.09, "seeds": 2},
        "rsv": {"ours": 96.02, "expected": 96.02, "largestDifference": 0.0, "seeds": 1},
    }
    assert numbers["gainOverFgd"] == {"rsv": {"default": {"mean": 1.02, "worst": 1.02, "won": 1, "seeds": 1}}}
    assert "| default | 95.30 (95.31) | 96.02 (96.02) |" in packing_tables.markdown(views)
    assert "| all | 1.02 | 1.02 | 1 of 1 |" in packing_tables.markdown(views)
    json.dumps(numbers)


def test_what_is_missing_is_a_dash() -> None:
    results = {
        Task("inflation", "default", "fgd", 1): result(95.0),
        Task("inflation", "cpu050", "rsv", 1): result(95.0),
    }
    numbers, views = packing_tables.inflation(results, EXPECTED)
    assert "gainOverFgd" not in numbers
    assert "| default | – (–) | – (–) |" in packing_tables.markdown(views)
    assert "| cpu050 | – (–) | 95.00 (–) |" in packing_tables.markdown(views)


def test_churn_and_sampling_are_means_over_seeds() -> None:
    served = [
        result(0, servedPercent=value, servedEightGpuPercent=eight) for value, eight in ((96.0, None), (97.0, 60.0))
    ]
    results = {Task("churn", "default", "fgd", seed, 1.0): one for seed, one in enumerate(served)}
    numbers, views = packing_tables.churn(results, EXPECTED)
    assert numbers["servedPercent"]["default 1"]["fgd"]["ours"] == 96.5
    assert numbers["servedEightGpuPercent"]["default 1"]["fgd"]["seeds"] == 1
    assert [view.rows for view in views] == [(("default 1", "96.50 (97.07)"),), (("default 1", "60.00 (61.50)"),)]
    few = {Task("inflation", "default", "rsv", seed, candidates=60): result(96.0 + seed) for seed in (0, 1)}
    assert packing_tables.sampling(few, EXPECTED)[1][0].rows == (("default", "96.50 (96.07)"),)


def test_fresh_seeds_have_gains_too() -> None:
    results = {
        Task("inflation", "default", policy, seed): result(end)
        for policy, ends in (("fgd", (95.0, 96.0)), ("rsv", (96.0, 95.5)))
        for seed, end in zip((100, 101), ends, strict=True)
    }
    numbers, _ = packing_tables.fresh(results, EXPECTED)
    assert numbers["gainOverFgd"]["rsv"]["default"] == {"mean": 0.25, "worst": -0.5, "won": 1, "seeds": 2}
