"""What users of other schedulers reported about gangs, as plans: the same inputs, the right outcome."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.plan.documents import Object, node, placed, plan, pod, waits
from tests.replay.gang_objects import (
    group_of,
    leader_worker_set,
    queue,
    ray_cluster,
    ray_pod,
    topology,
)

RACK = "example.com/rack"
CLIQUE = "nvidia.com/gpu.clique"
LATER = "2026-01-01T00:00:05Z"


def nodes(count: int, gpus: int, prefix: str = "n", **labels: str) -> list[Object]:
    return [node(f"{prefix}{i:03}", gpus, labels=dict(labels)) for i in range(count)]


def started(answer: Object) -> Counter[str]:
    """How many pods of each gang have a place, by the name before the number."""
    return Counter(name.rsplit("-", 1)[0] for name in placed(answer))


def test_t1_two_gangs_that_each_need_all_nodes() -> None:
    """Volcano #3373, #2037. 100 nodes, two gangs of 100 one-node pods together → one runs, the other holds nothing."""
    answer = plan(*nodes(100, 1), *group_of("one", 100, gpus=1), *group_of("two", 100, gpus=1, created=LATER))
    assert started(answer) == {"one": 100}
    assert waits(answer) == {"two": "GANG_DOES_NOT_FIT"}


class TestT2:
    """scheduler-plugins #713, #117, #930. What does not start holds nothing."""

    def test_another_job_takes_the_nodes_that_would_not_do(self) -> None:
        busy = pod("busy", gpus=1, on="n009")
        answer = plan(
            *nodes(10, 1), busy, *group_of("ten", 10, gpus=1), *group_of("nine", 9, gpus=1, created=LATER)
        )  # fmt: skip
        assert started(answer) == {"nine": 9}
        (pending,) = answer["pending"]
        assert pending["reason"]["details"] == {"gang": "PodGroup team/ten", "pods": 10, "fitting": 9}

    def test_one_of_two_nodes_is_taken(self) -> None:
        answer = plan(*nodes(2, 1), pod("busy", gpus=1, on="n000"), *group_of("pair", 2, gpus=1))
        assert started(answer) == {}


def test_t3_larger_than_any_node() -> None:
    """Volcano #5006, #1295. Pods of 8 on nodes of 4 → waits at once, and its queue holds nothing."""
    work = group_of("wide", 2, gpus=8, labels={"tangram.scheduler/queue": "q"})
    answer = plan(*nodes(4, 4), queue("q", gpu={"quota": 16}), *work)
    assert waits(answer) == {"wide": "GANG_DOES_NOT_FIT"}
    assert answer["pending"][0]["reason"]["details"]["fitting"] == 0
    assert answer["queues"][0]["allocated"]["gpuMilli"] == 0


@pytest.mark.parametrize(("limit", "running"), [(4, 0), (6, 0), (7, 7)])
def test_t6_the_queue_has_room_for_a_part(limit: int, running: int) -> None:
    """KAI #500, KubeRay #4066. A head and 2 replicas of 3 hosts, the queue takes 4 of 7 CPU → all wait."""
    cluster = ray_cluster(("workers", 2, 2, 3), queue="q")
    pods = [ray_pod("head", cluster), *(ray_pod(f"worker-{i}", cluster, "workers") for i in range(6))]
    answer = plan(*nodes(2, 0), queue("q", cpu={"quota": limit, "limit": limit}), cluster, *pods)
    assert len(placed(answer)) == running
    assert sum(len(item["pods"]) for item in answer["pending"]) == 7 - running


@pytest.mark.parametrize(("gpus", "running"), [(8, set()), (99, {"head", "one-0", "one-1", "one-2", "two-0"})])
def test_t7_a_group_that_does_not_fit(gpus: int, running: set[str]) -> None:
    """KAI #924. A head, three workers of 1 of which one is needed, three of 99 of which one is needed → nothing starts
    (as long as no node has 99).
    """
    cluster = ray_cluster(("one", 3, 1, 1), ("two", 3, 1, 1))
    pods = [ray_pod("head", cluster), *(ray_pod(f"one-{i}", cluster, "one", gpus=1) for i in range(3))]
    pods += [ray_pod(f"two-{i}", cluster, "two", gpus=99) for i in range(3)]
    answer = plan(node("small", 4), node("large", gpus, allocatable={"cpu": "200"}), cluster, *pods)
    assert set(placed(answer)) == running


@pytest.mark.parametrize("groups", [2, 3])
def test_t10_no_leader_without_its_worker(groups: int) -> None:
    """lws #167. 4 nodes × 1, groups of 2, scaled from two to three → the third waits whole."""
    answer = plan(*nodes(4, 1), *leader_worker_set("lws", groups, 2, gpus=1))
    found = placed(answer)
    assert set(found) == {"lws-0", "lws-0-1", "lws-1", "lws-1-1"}
    assert len({where for where, _, _ in found.values()}) == 4
    assert {tuple(item["pods"]) for item in answer["pending"]} == {("lws-2", "lws-2-1")}.difference(
        [("lws-2", "lws-2-1")] if groups == 2 else []
    )


@pytest.mark.parametrize("size", [4, 3])
def test_t12_the_empty_clique(size: int) -> None:
    """nvcf #598. A clique partly full, one empty, a gang of one clique's size → the empty one. What also fits into the
    other goes there.
    """
    full, empty = nodes(4, 1, "a", **{CLIQUE: "c.0"}), nodes(4, 1, "b", **{CLIQUE: "c.1"})
    gang = group_of("gang", size, gpus=1, constraint={"requiredTopologyLevel": CLIQUE})
    answer = plan(*full, *empty, pod("busy", gpus=1, on="a000"), *gang)
    assert {where[0] for where, _, _ in placed(answer).values()} == {"b" if size == 4 else "a"}
    assert len(placed(answer)) == size


def test_t13_seventeen_of_eighteen_nodes_of_a_rack() -> None:
    """KAI #577. 18 nodes × 4 in one rack, a gang of 17 × 4 → placed, a node each."""
    gang = group_of("gang", 17, gpus=4, constraint={"requiredTopologyLevel": CLIQUE})
    found = placed(plan(*nodes(18, 4, **{CLIQUE: "c.0"}), *gang))
    assert len(found) == len({where for where, _, _ in found.values()}) == 17


class TestT14:
    """Kueue #4474, #10406, #10878. Small work leaves whole what large work needs."""

    def test_gaps_are_filled_first(self) -> None:
        answer = plan(
            node("two", 2), node("one", 1), node("other", 1),
            *group_of("small", 2, gpus=1), *group_of("large", 1, gpus=2, created=LATER),
        )  # fmt: skip
        assert started(answer) == {"small": 2, "large": 1}
        assert placed(answer)["large-000"][0] == "two"

    def test_as_few_racks_as_can_be(self) -> None:
        """33 racks × 18 nodes × 4, 600 pods of one → 9 racks."""
        racks = [each for rack in range(33) for each in nodes(18, 4, f"r{rack:02}-", **{RACK: f"r{rack:02}"})]
        gang = group_of("gang", 600, gpus=1, cpu="100m", constraint={"topology": "net", "preferredTopologyLevel": RACK})
        answer = plan(topology("net", RACK, "kubernetes.io/hostname"), *racks, *gang)
        found = placed(answer)
        assert len(found) == 600
        assert len({where.split("-")[0] for where, _, _ in found.values()}) == 9


def test_t15_what_one_move_would_make_room_for() -> None:
    """Volcano #3948, Kueue #4329, without permission to move anybody. Nodes of 8 with 4+2+1, 4+2 and 4+2+1 taken, a job
    of 4 → waits and nobody is moved; it starts as soon as the one of 2 on the second node is gone.
    """
    used = {"n000": (4, 2, 1), "n001": (4, 2), "n002": (4, 2, 1)}
    pods = [pod(f"{on}-{i}", gpus=gpus, on=on) for on, sizes in used.items() for i, gpus in enumerate(sizes)]
    answer = plan(*nodes(3, 8), *pods, *group_of("job", 1, gpus=4), actions=["allocate"])
    assert (placed(answer), answer["evictions"]) == ({}, [])
    assert len(answer["pending"]) == 1
    left = [one for one in pods if one["metadata"]["name"] != "n001-1"]
    assert placed(plan(*nodes(3, 8), *left, *group_of("job", 1, gpus=4)))["job-000"][0] == "n001"


@pytest.mark.parametrize("sizes", [(4, 4), (8, 8)])
def test_t17_quota_is_not_room(sizes: tuple[int, int]) -> None:
    """Quota 8 on two nodes of 4, a pod of 8 → quota alone would admit it, no node holds it."""
    work = group_of("wide", 1, gpus=8, labels={"tangram.scheduler/queue": "q"})
    answer = plan(node("a", sizes[0]), node("b", sizes[1]), queue("q", gpu={"quota": 8}), *work)
    if sizes == (4, 4):
        assert placed(answer) == {}
        assert list(waits(answer).values()) == ["INSUFFICIENT_WHOLE_GPUS"]
        assert answer["queues"][0]["allocated"]["gpuMilli"] == 0
    else:
        assert set(placed(answer)) == {"wide-000"}
