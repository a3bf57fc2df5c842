"""Our Queue: every field in its unit, what an unset one means, and what is said about mistakes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_api.cluster.fields import DecodeError
from extender_api.queue_objects.read import read_queue
from queues.amounts import UNLIMITED
from queues.spec import QueueSpec, Source, Terms
from topology.selector import Requirement

Object = dict[str, Any]


def queue(spec: Any = None, **metadata: Any) -> Object:
    return {
        "apiVersion": "tangram.scheduler/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": "team-a", **metadata},
        "spec": spec,
    }


def gpu(**terms: Any) -> Terms:
    return read_queue(queue({"resources": {"gpu": terms}})).gpu


def problem(content: Object) -> str:
    with pytest.raises(DecodeError) as caught:
        read_queue(content)
    return str(caught.value)


@pytest.mark.parametrize("spec", [None, {}, {"resources": None}, {"resources": {}}, {"resources": {"gpu": None}}])
def test_what_is_not_said_is_no_trap(spec: Object | None) -> None:
    assert read_queue(queue(spec)) == QueueSpec("team-a")
    assert read_queue(queue(spec)).gpu == Terms(quota=0, limit=UNLIMITED, weight_milli=1000)


def test_a_queue_that_says_nothing_of_a_resource_but_devices_does_not_bound_it() -> None:
    found = read_queue(queue({"resources": {"gpu": {"quota": 4}, "memory": {"limit": "1Gi"}}}))
    assert found.cpu == Terms(UNLIMITED, UNLIMITED, 1000)
    assert found.memory == Terms(0, 1 << 30, 1000), "of this one something is said"


def test_every_field() -> None:
    found = read_queue(
        queue(
            {
                "parent": "department",
                "priority": 200,
                "resources": {
                    "gpu": {"quota": 4, "limit": "8500m", "overQuotaWeight": 2.5},
                    "cpu": {"quota": "16", "limit": "32500m", "overQuotaWeight": 0},
                    "memory": {"quota": "64Gi", "limit": "100G"},
                    "gpuModels": {"nvidia-h100": {"quota": 1, "limit": 2}, "A100 SXM4": {"limit": "0.5"}, "L4": {}},
                },
                "preemptMinRuntime": "5m",
                "reclaimMinRuntime": "1h30m",
                "namespaces": ["a", "b"],
                "namespaceSelector": {
                    "matchLabels": {"team": "a"},
                    "matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["test"]}],
                },
                "topology": "racks",
                "pools": ["reserved", "spot"],
                "cordoned": True,
                "strictFifo": True,
                "autoscaling": "visible",
                "starvingAfter": "2d",
            },
            uid="u-1",
            creationTimestamp="2026-01-01T00:00:00Z",
        ),
        Source.FILE,
    )
    assert (found.name, found.uid, found.source) == ("team-a", "u-1", Source.FILE)
    assert found.created_ms == int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
    assert (found.parent, found.priority) == ("department", 200)
    assert found.gpu == Terms(4000, 8500, 2500)
    assert found.cpu == Terms(16_000, 32_500, 0)
    assert found.memory == Terms(64 << 30, 100 * 10**9, 1000)
    assert found.models == {
        "H100": Terms(1000, 2000),
        "A100-SXM4": Terms(UNLIMITED, 500),
        "L4": Terms(UNLIMITED, UNLIMITED),
    }
    assert (found.preempt_min_runtime_ms, found.reclaim_min_runtime_ms) == (300_000, 5_400_000)
    assert found.starving_after_ms == 2 * 86_400_000
    assert found.access.namespaces == {"a", "b"}
    assert found.access.selector == (Requirement("team", "In", ("a",)), Requirement("env", "NotIn", ("test",)))
    assert (found.topology, found.pools) == ("racks", ("reserved", "spot"))
    assert found.cordoned
    assert found.strict_fifo
    assert found.autoscaling_visible


@pytest.mark.parametrize("written", [-1, "-1", -1.0])
def test_unlimited(written: object) -> None:
    assert gpu(quota=written, limit=written) == Terms(UNLIMITED, UNLIMITED)


@pytest.mark.parametrize(
    ("written", "milli"),
    [
        (4, 4000),
        ("4", 4000),
        (0.5, 500),
        ("0.5", 500),
        ("500m", 500),
        ("1e1", 10_000),
        (0, 0),
        ("1u", 1),
        ("1k", 10**6),
    ],
)
def test_devices_are_quantities(written: object, milli: int) -> None:
    assert gpu(quota=written).quota == milli


def test_amounts_beyond_all_measure_count_as_the_largest() -> None:
    assert gpu(quota="9e99").quota == (1 << 63) - 1


@pytest.mark.parametrize(("written", "milli"), [(1, 1000), (0, 0), (0.0001, 1), (1e6, 10**9), (1 / 3, 333)])
def test_a_small_weight_is_a_claim(written: float, milli: int) -> None:
    assert gpu(overQuotaWeight=written).weight_milli == milli


def test_an_empty_selector_selects_every_namespace_and_none_says_nothing() -> None:
    everyone = read_queue(queue({"namespaceSelector": {}})).access
    assert everyone.selector == ()
    assert not everyone.open
    assert read_queue(queue({"namespaces": []})).access.open


NOT_UNLIMITED = "write an amount of 0 or more, or -1 for unlimited"
MISTAKES: list[tuple[Object, str]] = [
    ({"resources": {"gpu": {"quota": -2}}}, f"spec.resources.gpu.quota: -2 is negative: {NOT_UNLIMITED}"),
    ({"resources": {"gpu": {"quota": "-1000m"}}}, f"spec.resources.gpu.quota: -1000m is negative: {NOT_UNLIMITED}"),
    (
        {"resources": {"cpu": {"limit": "many"}}},
        "spec.resources.cpu.limit: 'many' is not a Kubernetes quantity; write a Kubernetes quantity, or -1 for "
        "unlimited",
    ),
    (
        {"resources": {"memory": {"limit": True}}},
        "spec.resources.memory.limit: write a Kubernetes quantity, or -1 for unlimited",
    ),
    (
        {"resources": {"gpu": {"quota": 4, "limit": 2}}},
        "spec.resources.gpu: limit must not be below quota; write -1 for no limit",
    ),
    (
        {"resources": {"gpuModels": {"H100": {"quota": 4, "limit": "3500m"}}}},
        "spec.resources.gpuModels.H100: limit must not be below quota; write -1 for no limit",
    ),
    (
        {"resources": {"gpuModels": {"H100": {}, "nvidia-h100-80gb": {}}}},
        "spec.resources.gpuModels['nvidia-h100-80gb']: matches products that H100 matches, too: keep one of them",
    ),
    ({"resources": {"gpuModels": {" ": {}}}}, "spec.resources.gpuModels[' ']: names no GPU model: write e.g. H100"),
    (
        {"resources": {"gpuModels": {"": {}}}},
        "spec.resources.gpuModels['']: String should have at least 1 character",
    ),
    (
        {"resources": {"gpu": {"overQuotaWeight": -1}}},
        "spec.resources.gpu.overQuotaWeight: Input should be greater than or equal to 0",
    ),
    ({"resources": {"gpu": {"qouta": 4}}}, "spec.resources.gpu.qouta: no such field in a Queue"),
    ({"reclaimable": True}, "spec.reclaimable: no such field in a Queue"),
    ({"cordoned": "yes"}, "spec.cordoned: Input should be a valid boolean"),
    ({"parent": ""}, "spec.parent: String should have at least 1 character"),
    ({"preemptMinRuntime": "soon"}, "spec.preemptMinRuntime: 'soon' is not a duration such as 90s, 5m, 1h30m or 2d"),
    ({"starvingAfter": 300}, "spec.starvingAfter: write a duration such as 90s, 5m, 1h30m or 2d"),
    ({"autoscaling": "on"}, "spec.autoscaling: Input should be 'hidden' or 'visible'"),
    ({"namespaces": ["a", 1]}, "spec.namespaces[1]: Input should be a valid string"),
    (
        {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        "spec.namespaceSelector: a In [] is no valid requirement",
    ),
    (
        {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}},
        "spec.namespaceSelector.matchExpressions[0].operator: Input should be 'In', 'NotIn', 'Exists' or "
        "'DoesNotExist'",
    ),
]


@pytest.mark.parametrize(("spec", "said"), MISTAKES)
def test_mistakes_name_the_queue_and_the_field(spec: Object, said: str) -> None:
    assert problem(queue(spec)) == f"Queue team-a: {said}"


def test_mistakes_beside_the_spec() -> None:
    assert problem({"metadata": {}}) == "Queue: metadata.name: Field required"
    assert problem({"metadata": None}) == "Queue: metadata.name: Field required"
    assert problem(queue({}, name="a b")).startswith("Queue a b: metadata.name: must be able to stand in a label")
    assert problem(queue({}, name="q" * 64)).endswith("at most 63 letters, digits, '-', '_' and '.'")
    assert problem({**queue(), "sepc": {}}) == "Queue team-a: sepc: no such field in a Queue"
    assert problem({**queue(), "apiVersion": "scheduling.volcano.sh/v1beta1"}) == (
        "Queue team-a: apiVersion: scheduling.volcano.sh/v1beta1 is not read: write tangram.scheduler/v1alpha1 or "
        "scheduling.run.ai/v2"
    )
    assert "creationTimestamp" in problem(queue({}, creationTimestamp="yesterday"))


def test_an_object_without_a_version_is_ours_and_a_status_is_of_no_concern() -> None:
    content = {"metadata": {"name": "a"}, "spec": {"priority": 7}, "status": {"whatever": 1}}
    assert read_queue(content) == QueueSpec("a", priority=7)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(["parent", "priority", "resources", "namespaces", "namespaceSelector", "pools", "autoscaling"])
TERMS = st.dictionaries(st.sampled_from(["quota", "limit", "overQuotaWeight"]), JSON, max_size=3)
RESOURCES = st.dictionaries(st.sampled_from(["gpu", "cpu", "memory", "gpuModels"]), TERMS | JSON, max_size=3)


@given(st.dictionaries(FIELDS, JSON, max_size=3) | st.fixed_dictionaries({"resources": RESOURCES}) | JSON)
def test_whatever_stands_there_is_read_or_named(spec: object) -> None:
    said = ""
    try:
        for terms in read_queue(queue(spec)).terms:
            assert terms.quota >= UNLIMITED
            assert terms.limit == UNLIMITED or 0 <= terms.quota <= terms.limit
            assert terms.weight_milli >= 0
    except DecodeError as err:
        said = str(err)
    assert not said or said.startswith("Queue team-a: spec")
