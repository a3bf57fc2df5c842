"""Kubernetes objects as scenarios: when pods come and end, who stands in the way, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender_api.simulate_manifests import read
from scheduler.simulate.result import JobOutcome
from scheduler.simulate.scenario import Outage, ScenarioError
from tests.plan.documents import SETTINGS, Object, holding, node, pod
from tests.replay.gang_objects import owned
from tests.simulate.builders import simulate

ZERO = "2026-01-01T00:00:00Z"
MINUTE_MS = 60_000
RUNS = "tangram.scheduler/simulated-duration"
EXPECTED = "tangram.scheduler/expected-runtime"
OUTAGE = "tangram.scheduler/simulated-outage"


def noted(item: Object, when: str | None = ZERO, **annotations: str) -> Object:
    """The object with the time at which it was made, and with annotations."""
    metadata = {**item["metadata"], "annotations": {**item["metadata"].get("annotations", {}), **annotations}}
    return {**item, "metadata": metadata | ({"creationTimestamp": when} if when else {})}


def runs(item: Object, span: str, when: str | None = ZERO) -> Object:
    return noted(item, when, **{RUNS: span})


def simulated(*objects: Object) -> dict[str, JobOutcome]:
    return {one.name.removeprefix("team/"): one for one in simulate(read(objects, SETTINGS)).jobs}


def minutes(*objects: Object) -> dict[str, tuple[float | None, float | None]]:
    """Pod → the minutes at which it started and ended."""

    def minute(ms: int | None) -> float | None:
        return None if ms is None else ms / MINUTE_MS

    return {name: (minute(one.started_ms), minute(one.ended_ms)) for name, one in simulated(*objects).items()}


@pytest.mark.parametrize(("span", "ends"), [("90m", 90), ("3600s", 60), ("2h30m", 150), ("0s", 0)])
def test_how_long_a_pod_runs(span: str, ends: int) -> None:
    assert minutes(node("n1", 1), runs(pod("p", gpus=1), span)) == {"p": (0, ends)}


def test_what_a_pod_says_of_simulations_comes_before_what_is_expected() -> None:
    both = noted(pod("both"), **{RUNS: "10m", EXPECTED: "1h"})
    only = noted(pod("only"), **{EXPECTED: "1h"})
    assert minutes(node("n1"), both, only, noted(pod("ever"))) == {"both": (0, 10), "only": (0, 60), "ever": (0, None)}


def test_pods_come_one_after_the_other() -> None:
    first, second = runs(pod("first", gpus=1), "1h"), runs(pod("second", gpus=1), "1h", "2026-01-01T00:30:00Z")
    assert minutes(node("n1", 1), second, first) == {"first": (0, 60), "second": (60, 120)}


def test_pods_that_do_not_say_when_they_were_made_come_first() -> None:
    objects = [runs(pod("p", gpus=1), "1h"), runs(pod("q", gpus=1), "1h", None)]
    assert minutes(node("n1", 1), *objects) == {"p": (0, 60), "q": (60, 120)}
    assert minutes(node("n1", 2), *(runs(pod(name, gpus=1), "1h", None) for name in "pq")) == {
        "p": (0, 60),
        "q": (0, 60),
    }


def test_what_became_of_a_pod_is_forgotten() -> None:
    """It ran on n1 when the files were written; in the simulation it may go where there is room."""
    ran = runs(holding("ran", "n1", (0, 40_000, 1000), gpus=1), "1h")
    scenario = read([node("n2", 1), ran], SETTINGS)
    (fresh,) = scenario.jobs[0].pods
    assert (fresh.node_name, fresh.phase) == (None, "Pending")
    assert "tangram.scheduler/allocation" not in fresh.annotations
    assert minutes(node("n2", 1), ran) == {"ran": (0, 60)}


def test_pods_of_others_hold_what_they_hold() -> None:
    agent = pod("agent", cpu="31", on="n1", scheduler="default-scheduler")
    trainer = pod("trainer", gpus=1, cpu="0", on="n2", scheduler="default-scheduler")
    over = pod("over", cpu="32", on="n1", scheduler="default-scheduler", status={"phase": "Succeeded"})
    objects = [node("n1", 1), node("n2", 1), agent, trainer, over]
    assert minutes(*objects, runs(pod("small", gpus=1, cpu="1"), "1h")) == {"small": (0, 60)}
    large = runs(pod("large", gpus=1, cpu="2"), "1h")
    assert minutes(*objects, large) == {"large": (None, None)}
    (lost,) = simulate(replace(read([*objects, large], SETTINGS), waits=False)).jobs
    assert lost.lost


def test_a_namespace_names_the_queue() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {}}}
    queue = {
        "apiVersion": "tangram.scheduler/v1alpha1", "kind": "Queue", "metadata": {"name": "a"},
        "spec": {"resources": {"gpu": {"quota": 1, "limit": 1}}},
    }  # fmt: skip
    objects = [node("n1", 2), queue, *(runs(pod(name, gpus=1), "1h") for name in "pq")]
    assert minutes(*objects, namespace) == {"p": (None, None), "q": (None, None)}
    namespace["metadata"]["labels"] = {"tangram.scheduler/default-queue": "a"}  # type: ignore[index]
    assert minutes(*objects, namespace) == {"p": (0, 60), "q": (60, 120)}


def batch_job(name: str, **parts: Any) -> Object:
    metadata = {
        "name": name, "namespace": "team", "uid": f"uid-{name}",
        "annotations": {"tangram.scheduler/batch-min-member": "2"},
    }  # fmt: skip
    spec = {"parallelism": 2, "completions": 2}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec, **parts}


def test_a_gang_whose_members_end_one_by_one_is_left_alone() -> None:
    """Live, the status of the Job says that one has succeeded; here nobody writes it, and it counts all the same."""
    owner = batch_job("j")
    short, long = runs(owned("j-0", owner, {}, gpus=1), "1h"), runs(owned("j-1", owner, {}, gpus=1), "2h")
    found = simulated(node("n1", 2), owner, short, long)
    assert [(one.ended_ms, one.restarts) for one in found.values()] == [(60 * MINUTE_MS, 0), (120 * MINUTE_MS, 0)]


def test_what_became_of_an_owner_is_forgotten() -> None:
    """One had succeeded and one ran when the files were written: in the simulation both start, and together."""
    owner = batch_job("j", status={"succeeded": 1, "active": 1})
    pods = [runs(owned(f"j-{at}", owner, {}, gpus=1), "1h") for at in range(2)]
    first = runs(pod("first", gpus=1, spec={"priority": 1}), "30m")
    assert minutes(node("n1", 2), owner, first, *pods) == {"first": (0, 30), "j-0": (30, 90), "j-1": (30, 90)}


def test_nodes_fail_when_they_are_said_to() -> None:
    gone = noted(node("n1", 1), None, **{OUTAGE: "2h-3h30m, 10h-"})
    scenario = read([gone, runs(pod("p", gpus=1), "1h")], SETTINGS)
    hour_ms = 60 * MINUTE_MS
    assert scenario.outages == (Outage("n1", 2 * hour_ms, 210 * MINUTE_MS), Outage("n1", 10 * hour_ms))


def test_all_that_is_wrong_is_told_at_once() -> None:
    objects = [
        noted(node("n1", 1), None, **{OUTAGE: "2h,3h-1h,x-"}),
        noted(pod("a"), **{RUNS: "soon"}),
        noted(pod("b"), **{EXPECTED: "late"}),
    ]
    with pytest.raises(ScenarioError) as caught:
        read(objects, SETTINGS)
    assert str(caught.value).splitlines() == [
        f"pod team/b: annotation {EXPECTED}: 'late' has no effect: write a duration such as 90s, 5m, 1h30m or 2d",
        f"pod team/a: {RUNS}: 'soon' is not a duration such as 90s, 5m, 1h30m or 2d",
        f"node n1: {OUTAGE} '2h': write it as 2h-3h30m or 10h-",
        f"node n1: {OUTAGE} '3h-1h': write it as 2h-3h30m or 10h-",
        f"node n1: {OUTAGE} 'x-': 'x' is not a duration such as 90s, 5m, 1h30m or 2d",
    ]
