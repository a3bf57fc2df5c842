"""A scheduler that treats its extender as kube-scheduler does.

One pod at a time: its own checks (readiness, taints, selectors, CPU, memory, device counts) on every node,
or first on the nominated one alone; `filter` with the nodes that are left; `prioritize` when two or more
remain; `bind` in a task of its own. What is refused comes back after 1, 2, 4, 8, 10 s, or as soon as its
pod changes or another pod ends.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from extender_api.cluster.decode import decode_node, decode_pod
from extender_api.demo.embedded import EmbeddedCluster, EventKind
from extender_api.demo.objects import Object
from extender_api.demo.transport import Transport, TransportError
from scheduler.arithmetic import effective
from scheduler.constraints import constraints_of, refusal
from scheduler.pod import PodFacts
from topology import vocabulary
from topology.node import NodeFacts

BACKOFF_S: Final = (1.0, 2.0, 4.0, 8.0, 10.0)


@dataclass(slots=True)
class Waiting:
    """A pod that wants a node."""

    facts: PodFacts
    document: Object
    attempts: int = 0
    not_before: float = 0.0
    in_flight: bool = False


@dataclass(slots=True)
class CallTimes:
    """Seconds per extender call, by verb, and the answers that were errors."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {"filter": [], "prioritize": [], "bind": []})
    errors: Counter[str] = field(default_factory=Counter)
    refusals: int = 0


class StockScheduler:
    """Schedules the pods of our schedulerName in `cluster` through the extender that `transport` leads to."""

    def __init__(self, cluster: EmbeddedCluster, transport: Transport, *, prefix: str = "/v1") -> None:
        self._cluster = cluster
        self._transport = transport
        self._prefix = prefix
        self._nodes: dict[str, NodeFacts] = {}
        self._free: dict[str, Counter[str]] = {}
        self._assumed: dict[str, tuple[str, Counter[str]]] = {}
        self._waiting: dict[str, Waiting] = {}
        self._queue: list[tuple[int, int, str]] = []
        self._arrivals = 0
        self._work = asyncio.Event()
        self._binds: set[asyncio.Task[None]] = set()
        self.times = CallTimes()
        cluster.watch(self._changed)

    async def run(self) -> None:
        """Schedules until cancelled."""
        try:
            while True:
                uid = await self._next()
                await self._schedule(uid)
        finally:
            for task in self._binds:
                task.cancel()

    # -- the queue -------------------------------------------------------------------------------------------

    def _changed(self, kind: EventKind, document: Object) -> None:
        if document["kind"] == "Node":
            node = decode_node(document)
            self._nodes[node.name] = node
            self._free[node.name] = Counter(node.allocatable)
            return
        uid = document["metadata"]["uid"]
        facts = decode_pod(document)
        if kind == "DELETED" or facts.finished:
            self._waiting.pop(uid, None)
            if self._forget(uid):
                self._wake_all()
        elif facts.node_name:
            self._waiting.pop(uid, None)
            self._assume(facts, facts.node_name)
        elif facts.scheduler_name == vocabulary.DEFAULT_SCHEDULER_NAME and not facts.gates:
            self._offer(facts, document)

    def _offer(self, facts: PodFacts, document: Object) -> None:
        waiting = self._waiting.get(facts.uid)
        if waiting is None:
            self._waiting[facts.uid] = Waiting(facts, document)
        else:
            own_condition_only = waiting.facts.nominated_node == facts.nominated_node
            waiting.facts, waiting.document = facts, document
            if own_condition_only:
                return
            waiting.not_before = 0.0
        self._push(facts)

    def _push(self, facts: PodFacts) -> None:
        self._arrivals += 1
        heapq.heappush(self._queue, (-facts.priority, self._arrivals, facts.uid))
        self._work.set()

    def _wake_all(self) -> None:
        """A pod ended: everything that was refused is tried again."""
        for waiting in self._waiting.values():
            if waiting.attempts and not waiting.in_flight:
                waiting.not_before = 0.0
                self._push(waiting.facts)

    async def _next(self) -> str:
        loop = asyncio.get_running_loop()
        while True:
            while self._queue:
                _, _, uid = heapq.heappop(self._queue)
                waiting = self._waiting.get(uid)
                if waiting and not waiting.in_flight and waiting.not_before <= loop.time():
                    return uid
            self._work.clear()
            await self._work.wait()

    def _back_off(self, waiting: Waiting) -> None:
        delay = BACKOFF_S[min(waiting.attempts, len(BACKOFF_S) - 1)]
        waiting.attempts += 1
        loop = asyncio.get_running_loop()
        waiting.not_before = loop.time() + delay
        loop.call_at(waiting.not_before, self._push, waiting.facts)

    # -- one pod ---------------------------------------------------------------------------------------------

    async def _schedule(self, uid: str) -> None:
        waiting = self._waiting[uid]
        node = None
        if waiting.facts.nominated_node in self._nodes:
            node = await self._pick(waiting, [str(waiting.facts.nominated_node)])
        if node is None:
            node = await self._pick(waiting, sorted(self._nodes))
        if node is None:
            self._back_off(waiting)
            return
        waiting.in_flight = True
        self._assume(waiting.facts, node)
        task = asyncio.create_task(self._bind(waiting, node))
        self._binds.add(task)
        task.add_done_callback(self._binds.discard)

    async def _pick(self, waiting: Waiting, among: list[str]) -> str | None:
        offered = [name for name in among if self._passes(waiting.facts, name)]
        if not offered:
            return None
        left = await self._filter(waiting, offered)
        if len(left) < 2:
            return left[0] if left else None
        scores = await self._call("prioritize", _arguments(waiting.document, left))
        by_name = {item["Host"]: item["Score"] for item in scores or []}
        return max(left, key=lambda name: (by_name.get(name, 0), name))

    async def _filter(self, waiting: Waiting, offered: list[str]) -> list[str]:
        answer = await self._call("filter", _arguments(waiting.document, offered))
        if answer is None or answer.get("Error"):
            self.times.errors["filter"] += 1
            return []
        left = answer.get("NodeNames") or []
        if not left:
            self.times.refusals += 1
            reasons = Counter((answer.get("FailedNodes") or {}).values())
            reasons += Counter((answer.get("FailedAndUnresolvableNodes") or {}).values())
            text = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
            message = f"0/{len(self._nodes)} nodes are available: {text}."
            self._cluster.set_condition(waiting.facts.uid, reason="Unschedulable", message=message)
        return [name for name in left if name in offered]

    def _passes(self, pod: PodFacts, name: str) -> bool:
        free = self._free[name]
        if any(amount > free[resource] for resource, amount in self._needs(pod).items()):
            return False
        return refusal(constraints_of(pod), self._nodes[name]) is None

    async def _bind(self, waiting: Waiting, node: str) -> None:
        pod = waiting.facts
        body = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node}
        answer = await self._call("bind", body)
        waiting.in_flight = False
        if answer is None or answer.get("Error"):
            self.times.errors["bind"] += 1
            if self._forget(pod.uid) and pod.uid in self._waiting:
                self._back_off(waiting)

    async def _call(self, verb: str, body: Any) -> Any:
        start = time.perf_counter()  # the loop's clock is too coarse
        try:
            answer = await self._transport.post(f"{self._prefix}/{verb}", json.dumps(body).encode())
        except TransportError:
            return None
        self.times.seconds[verb].append(time.perf_counter() - start)
        return json.loads(answer.body) if answer.status == 200 else None

    # -- what is taken on the nodes --------------------------------------------------------------------------

    @staticmethod
    def _needs(pod: PodFacts) -> Counter[str]:
        return Counter({**effective(pod), "pods": 1})

    def _assume(self, pod: PodFacts, node: str) -> None:
        if pod.uid not in self._assumed:
            needs = self._needs(pod)
            self._assumed[pod.uid] = (node, needs)
            self._free[node].subtract(needs)

    def _forget(self, uid: str) -> bool:
        node, needs = self._assumed.pop(uid, ("", Counter()))
        if node:
            self._free[node].update(needs)
        return bool(node)


def _arguments(pod: Object, names: list[str]) -> Object:
    """ExtenderArgs: the pod without apiVersion and kind, as Go's types have it."""
    bare = {key: pod[key] for key in ("metadata", "spec", "status")}
    return {"Pod": bare, "Nodes": None, "NodeNames": names}
