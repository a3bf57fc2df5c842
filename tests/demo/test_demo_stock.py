"""The scheduler of the demo asks as kube-scheduler asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from extender_api.demo.embedded import EmbeddedCluster
from extender_api.demo.objects import GPU, L4, admiralty_node, demo_nodes, pod, real_node
from extender_api.demo.stock import StockScheduler
from extender_api.demo.transport import Answer, Transport

SMALL = {"cpu": "1", "memory": "1Gi"}
Verb = Callable[[dict[str, Any]], Any]


class FakeExtender(Transport):
    """Answers in place of Tangram, and remembers the questions.

    Without a rule: every node, no scores, bound.
    """

    def __init__(self, cluster: EmbeddedCluster) -> None:
        super().__init__("nowhere", 0)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.filter: Verb = lambda body: {"NodeNames": body["NodeNames"]}
        self.prioritize: Verb = lambda body: []
        self.bind: Verb = self._bind
        self._cluster = cluster

    async def post(self, path: str, body: bytes) -> Answer:
        await asyncio.sleep(0)
        verb, document = path.rpartition("/")[2], json.loads(body)
        self.asked.append((verb, document))
        return Answer(200, json.dumps(getattr(self, verb)(document)).encode())

    def _bind(self, body: dict[str, Any]) -> Any:
        self._cluster.bind(body["PodUID"], body["Node"], {})
        return {"Error": ""}

    @property
    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.asked]


@asynccontextmanager
async def scheduling(*nodes: dict[str, Any]) -> AsyncIterator[tuple[EmbeddedCluster, FakeExtender]]:
    cluster = EmbeddedCluster()
    extender = FakeExtender(cluster)
    for node in nodes or (real_node("n1", L4), real_node("n2", L4)):
        cluster.add_node(node)
    task = asyncio.create_task(StockScheduler(cluster, extender).run())
    try:
        yield cluster, extender
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def settle() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


def released(cluster: EmbeddedCluster, name: str = "p", **options: Any) -> str:
    uid = cluster.create_pod(pod(name, options.pop("resources", SMALL), **options))
    cluster.ungate(uid)
    return uid


async def test_gated_pods_are_left_alone() -> None:
    async with scheduling() as (cluster, extender):
        cluster.create_pod(pod("p", SMALL))
        await settle()
        assert extender.asked == []


async def test_filter_gets_the_bare_pod_and_all_names_that_pass() -> None:
    async with scheduling(*demo_nodes()) as (cluster, extender):
        released(cluster)
        await settle()
        verb, body = extender.asked[0]
        assert verb == "filter"
        assert list(body) == ["Pod", "Nodes", "NodeNames"]
        assert list(body["Pod"]) == ["metadata", "spec", "status"]
        assert body["NodeNames"] == ["a100-1", "a100-2", "h100-1", "l4-1", "l4-2"], "tainted nodes do not pass"


async def test_one_node_left_skips_prioritize() -> None:
    async with scheduling() as (cluster, extender):
        extender.filter = lambda body: {"NodeNames": ["n2"]}
        uid = released(cluster)
        await settle()
        assert extender.verbs == ["filter", "bind"]
        assert cluster.pod(uid)["spec"]["nodeName"] == "n2"


@pytest.mark.parametrize("best", ["n1", "n2"])
async def test_the_highest_score_wins(best: str) -> None:
    async with scheduling() as (cluster, extender):
        extender.prioritize = lambda body: [{"Host": best, "Score": 7}]
        uid = released(cluster)
        await settle()
        assert extender.verbs == ["filter", "prioritize", "bind"]
        assert cluster.pod(uid)["spec"]["nodeName"] == best


async def test_a_nominated_node_is_tried_alone_and_then_the_others() -> None:
    async with scheduling() as (cluster, extender):
        extender.filter = lambda body: {"NodeNames": ["n1"] if "n1" in body["NodeNames"] else []}
        uid = cluster.create_pod(pod("p", SMALL))
        cluster.set_status(uid, nominatedNodeName="n2")
        cluster.ungate(uid)
        await settle()
        assert [body.get("NodeNames") for _, body in extender.asked[:2]] == [["n2"], ["n1", "n2"]]
        assert cluster.pod(uid)["spec"]["nodeName"] == "n1"


async def test_its_own_arithmetic_counts_what_is_bound() -> None:
    async with scheduling(real_node("n1", L4)) as (cluster, extender):
        uids = [released(cluster, f"p{number}", resources={GPU: "3"}) for number in range(2)]
        await settle()
        assert [cluster.pod(uid)["spec"].get("nodeName") for uid in uids] == ["n1", None]
        assert extender.verbs == ["filter", "bind"]
        cluster.set_status(uids[0], phase="Succeeded")
        await settle()
        assert cluster.pod(uids[1])["spec"]["nodeName"] == "n1"


async def test_a_refusal_is_told_and_tried_again_when_the_pod_is_nominated() -> None:
    async with scheduling() as (cluster, extender):
        extender.filter = lambda body: {"NodeNames": None, "FailedNodes": {"n1": "full", "n2": "full"}}
        uid = released(cluster)
        await settle()
        message = cluster.pod(uid)["status"]["conditions"][0]["message"]
        assert message == "0/2 nodes are available: 2 full."
        assert extender.verbs == ["filter"], "a condition of its own making wakes nobody"
        extender.filter = lambda body: {"NodeNames": ["n1"]}
        cluster.set_status(uid, nominatedNodeName="n1")
        await settle()
        assert cluster.pod(uid)["spec"]["nodeName"] == "n1"


async def test_a_failed_bind_frees_what_was_assumed_and_backs_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender_api.demo.stock.BACKOFF_S", (0.01,))
    async with scheduling(real_node("n1", L4)) as (cluster, extender):
        real_bind, errors = extender.bind, ["not now"]
        extender.bind = lambda body: {"Error": errors.pop()} if errors else real_bind(body)
        uid = released(cluster, resources={GPU: "4"})
        await settle()
        assert "nodeName" not in cluster.pod(uid)["spec"]
        await asyncio.sleep(0.05)
        assert cluster.pod(uid)["spec"]["nodeName"] == "n1"
        assert extender.verbs == ["filter", "bind"] * 2


async def test_an_error_answer_backs_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender_api.demo.stock.BACKOFF_S", (0.01,))
    async with scheduling(real_node("n1", L4)) as (cluster, extender):
        answers = [{"Error": "not ready"}]
        extender.filter = lambda body: answers.pop() if answers else {"NodeNames": ["n1"]}
        uid = released(cluster)
        await asyncio.sleep(0.05)
        assert cluster.pod(uid)["spec"]["nodeName"] == "n1"
        assert extender.verbs == ["filter", "filter", "bind"]


async def test_a_tolerated_virtual_node_is_offered() -> None:
    async with scheduling(admiralty_node("far", gpus=2)) as (cluster, extender):
        released(cluster)
        toleration = {"key": "virtual-kubelet.io/provider", "operator": "Exists"}
        uid = released(cluster, "q", resources=SMALL | {GPU: "1"}, tolerations=[toleration])
        await settle()
        assert extender.asked[0][1]["NodeNames"] == ["far"]
        assert cluster.pod(uid)["spec"]["nodeName"] == "far"
