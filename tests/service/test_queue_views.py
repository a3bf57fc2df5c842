"""Queues and waits as the ops API, statuses, metrics and sentences show them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from extender_api import metrics, queue_text, queue_views, views
from extender_api.gauges import QUEUE_RESOURCES, Gauges
from queues.amounts import UNLIMITED
from queues.spec import QueueSpec, Source, Terms
from queues.tree import Defect, Tree
from scheduler.remedy import Change
from tests.engine.world import node, pod, share
from tests.service.hands import Stage

QUEUE = "tangram.scheduler/queue"
RUNTIME = "tangram.scheduler/expected-runtime"
GPUS = 1000


def gpu(quota: int = 0, limit: int = UNLIMITED, weight: int = 1000) -> Terms:
    return Terms(quota if quota == UNLIMITED else quota * GPUS, limit if limit == UNLIMITED else limit * GPUS, weight)


@pytest.fixture
def stage() -> Stage:
    """A department with two teams; n1 has four devices."""
    made = Stage(tell_after_ms=1)
    made.service.set_queues(
        (
            QueueSpec("department", gpu=gpu(3, 4)),
            QueueSpec("red", "department", gpu=gpu(2)),
            QueueSpec("blue", "department", gpu=gpu(1), autoscaling_visible=True),
        )
    )
    return made


def create(stage: Stage, name: str, team: str, gpus: int = 1, **other: Any) -> None:
    stage.create(pod(name, whole=gpus, labels={QUEUE: team}, created_ms=stage.clock.now_ms, **other))


def rounds(stage: Stage) -> None:
    more = True
    while more:
        _, more = stage.engine.plan(stage.clock.now_ms)


def workload(stage: Stage, name: str) -> dict[str, Any]:
    found = views.workload(stage.engine, "default", name, stage.clock.now_ms)
    assert found is not None
    return found


def test_all_queues_in_numbers(stage: Stage) -> None:
    create(stage, "a", "red", 2)
    rounds(stage)
    create(stage, "b", "blue", 3)
    rounds(stage)
    document = queue_views.queues(stage.engine)
    assert document["capacity"]["gpuMilli"] == 4000
    by_name = {found["name"]: found for found in document["queues"]}
    assert list(by_name) == ["department", "blue", "red"] or list(by_name) == ["department", "red", "blue"]
    red, department = by_name["red"], by_name["department"]
    assert (red["parent"], red["leaf"], department["leaf"]) == ("department", True, False)
    assert red["quota"]["gpuMilli"] == 2000
    assert red["limit"]["gpuMilli"] == UNLIMITED
    assert department["allocated"]["gpuMilli"] == 2000
    assert department["requested"]["gpuMilli"] == 5000
    assert department["waiting"] == 1
    assert by_name["blue"]["fairShare"]["gpuMilli"] == 2000
    assert document["findings"] == []


def test_a_wait_at_the_gate_is_explained_level_by_level(stage: Stage) -> None:
    create(stage, "a", "red", 3)
    rounds(stage)
    create(stage, "b", "red", 2)
    rounds(stage)
    found = workload(stage, "b")
    assert found["queue"] == "red"
    assert found["reason"]["code"] == "OVER_LIMIT"
    assert found["reason"]["details"] == {
        "queue": "department", "resource": "gpu_milli", "asked": 2000, "allocated": 3000, "bound": 4000,
    }  # fmt: skip
    assert [level["queue"] for level in found["levels"]] == ["red", "department"]
    gives_back, limit = found["remedies"]
    assert gives_back["change"] == Change.WORK_OF_QUEUE_ENDS
    assert gives_back["message"] == "work of queue department has to give back 1 GPU"
    assert limit["details"]["by"] == 1000
    assert found["ahead"] == 0
    assert found["startsIn"] is None, "nobody knows how long the other runs"


def test_more_than_a_limit_has_one_remedy_only(stage: Stage) -> None:
    create(stage, "a", "red", 5)
    rounds(stage)
    assert [remedy["change"] for remedy in workload(stage, "a")["remedies"]] == [Change.RAISE_LIMIT]


def running(stage: Stage, name: str, team: str, gpus: int, minutes: int) -> None:
    facts = pod(
        name,
        whole=gpus,
        labels={QUEUE: team},
        node_name="n1",
        gated=False,
        phase="Running",
        started_ms=stage.clock.now_ms,
        annotations={RUNTIME: f"{minutes}m"},
    )
    stage.create(facts)


def test_when_it_starts_is_a_range_where_run_times_are_known(stage: Stage) -> None:
    running(stage, "a", "red", 3, 10)
    rounds(stage)
    create(stage, "b", "red", 2)
    create(stage, "c", "red", 2, priority=-1)
    rounds(stage)
    minute = 60_000
    assert workload(stage, "b")["startsIn"] == {"lowMs": 10 * minute, "highMs": 10 * minute}
    behind = workload(stage, "c")
    assert behind["ahead"] == 1
    assert behind["startsIn"] == {"lowMs": 10 * minute, "highMs": None}, "who knows what the one before it does"


def test_a_wait_for_room_says_where_the_least_is_missing_and_who_has_it(stage: Stage) -> None:
    stage.service.on_node(None, node("n2", gpus=2))
    stage.service.set_queues((QueueSpec("red"), QueueSpec("blue")))
    create(stage, "a", "blue", 4)
    rounds(stage)
    running(stage, "b", "red", 2, 5)
    create(stage, "c", "red", 4)
    rounds(stage)
    found = workload(stage, "c")
    assert found["reason"]["code"] == "INSUFFICIENT_WHOLE_GPUS"
    (remedy,) = found["remedies"]
    assert remedy["change"] == Change.DEVICES_FREE_ON_NODE
    assert remedy["details"]["node"] == "n1"
    assert "blue" in remedy["details"]["held_by"]
    create(stage, "d", "red", 9)
    rounds(stage)
    (remedy,) = workload(stage, "d")["remedies"]
    assert remedy["change"] == Change.LARGER_NODE


def test_room_that_is_not_devices(stage: Stage) -> None:
    stage.service.set_queues(())
    stage.create(pod("fills", cpu_milli=60_000, gated=False, node_name="n1"))
    stage.create(pod("a", cpu_milli=10_000))
    rounds(stage)
    (remedy,) = workload(stage, "a")["remedies"]
    assert remedy["change"] == Change.ROOM_ON_NODE
    assert remedy["details"] == {"node": "n1", "resource": "cpu", "missing": 6000}


def test_without_queues_there_are_no_levels(stage: Stage) -> None:
    stage.service.set_queues(())
    stage.create(pod("a", whole=9))
    rounds(stage)
    found = workload(stage, "a")
    assert found["levels"] == []
    assert found["queue"] == "default"
    assert queue_views.statuses(stage.engine) == {}


def test_one_that_no_queue_takes(stage: Stage) -> None:
    stage.create(pod("a", whole=1, labels={QUEUE: "nowhere"}))
    found = workload(stage, "a")
    assert (found["stage"], found["reason"]["code"], found["queue"]) == ("unqueued", "QUEUE_DOES_NOT_EXIST", "nowhere")
    assert found["reason"]["message"] == "queue nowhere does not exist (yet)"


def test_statuses(stage: Stage) -> None:
    stage.service.set_queues(
        (
            QueueSpec("a", gpu=gpu(1), autoscaling_visible=True, models={"TEST": gpu(UNLIMITED, 3)}),
            QueueSpec("b", "gone"),
            QueueSpec("c", gpu=Terms(0, 0)),
        )
    )
    stage.service.on_node(None, node("n1", gpus=4))
    create(stage, "x", "a", 2)
    stage.create(share("s", "0.5", labels={QUEUE: "a"}))
    rounds(stage)
    found = queue_views.statuses(stage.engine)
    assert found["a"]["allocated"]["gpu"] == "2500m"
    assert found["a"]["allocated"]["gpuModels"] == {"TEST": "2500m"}
    conditions = {one["type"]: one for one in found["a"]["conditions"]}
    assert {name: one["status"] for name, one in conditions.items()} == {
        "Ready": "True", "Sound": "True", "Autoscaling": "True",
    }  # fmt: skip
    (broken,) = found["b"]["conditions"]
    assert (broken["type"], broken["status"], broken["reason"]) == ("Ready", "False", "ParentMissing")
    assert "queue gone, the parent of b, does not exist" in broken["message"]
    sound = {one["type"]: one for one in found["c"]["conditions"]}["Sound"]
    assert (sound["status"], sound["reason"]) == ("False", "LimitZero")


def test_a_share_that_lacks_room_makes_autoscaling_unsupported(stage: Stage) -> None:
    create(stage, "fills", "blue", 4)
    rounds(stage)
    stage.service.set_queues((QueueSpec("blue", autoscaling_visible=True),))
    stage.create(share("s", "0.5", labels={QUEUE: "blue"}))
    rounds(stage)
    conditions = {one["type"]: one for one in queue_views.statuses(stage.engine)["blue"]["conditions"]}
    assert (conditions["Autoscaling"]["status"], conditions["Autoscaling"]["reason"]) == ("False", "Unsupported")
    (queue,) = queue_views.queues(stage.engine)["queues"]
    assert queue["autoscaling"] == "unsupported"


@pytest.mark.parametrize("defect", list(Defect))
def test_every_defect_has_a_sentence(defect: Defect) -> None:
    specs = {
        Defect.PARENT_MISSING: (QueueSpec("a", "gone"),),
        Defect.CYCLE: (QueueSpec("a", "a"),),
        Defect.DEFINED_TWICE: (QueueSpec("a"), QueueSpec("a", source=Source.KAI)),
        Defect.CHILDREN_EXCEED_QUOTA: (QueueSpec("a", gpu=gpu(1)), QueueSpec("b", "a", gpu=gpu(2))),
        Defect.CHILD_EXCEEDS_LIMIT: (QueueSpec("a", gpu=gpu(0, 1)), QueueSpec("b", "a", gpu=gpu(0, 2))),
        Defect.STARVED_CHILDREN: (QueueSpec("a", gpu=gpu(0, UNLIMITED, 0)), QueueSpec("b", "a")),
        Defect.LIMIT_ZERO: (QueueSpec("a", gpu=gpu(0, 0)),),
    }[defect]
    (found,) = (one for one in Tree(specs).findings if one.defect is defect)
    assert queue_text.finding(found).startswith(f"queue {found.queue}: ")


def test_metrics_of_queues_come_and_go(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    create(stage, "a", "red", 2)
    rounds(stage)
    gauges = Gauges(stage.engine, list, stage.hands)  # type: ignore[arg-type]
    monkeypatch.setattr(gauges, "_writes", lambda: None)
    gauges.update()

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, labels)

    assert value("tangram_queue_amount", queue="red", resource="gpu", what="allocated") == 2
    assert value("tangram_queue_amount", queue="red", resource="gpu", what="limit") == math.inf
    assert value("tangram_queue_amount", queue="department", resource="gpu", what="limit") == 4
    assert value("tangram_queue_share_of_capacity", queue="red", resource="gpu") == 0.5
    assert value("tangram_queue_waiting", queue="red") == 0
    stage.service.set_queues((QueueSpec("blue"),))
    gauges.update()
    assert value("tangram_queue_waiting", queue="red") is None
    assert all(
        value("tangram_queue_share_of_capacity", queue="red", resource=resource) is None for resource in QUEUE_RESOURCES
    )
