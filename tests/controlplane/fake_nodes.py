"""Nodes without machines: registers them and plays the kubelet and device agent of all of them at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp

from tests.controlplane.async_kube import ApiError
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.node_agent import NodeAgent, Refused
from tests.controlplane.node_models import FakeNode
from tests.controlplane.resources import LEASES, NODES, PODS, Object

RUN_SECONDS: Final = "tests.tangram/run-seconds"
"""Annotation: the pod succeeds after so many seconds of running; without it, it runs until it is deleted."""
_LEASE_NAMESPACE: Final = "kube-node-lease"
_FINISHED: Final = ("Succeeded", "Failed")
_OVERTAKEN: Final = (404, 409)
_TROUBLE: Final = 429
"""From this status on the API server has trouble of its own, and asking again makes sense."""
_PAUSE_S: Final = 0.2
_WRITES: Final = 16


@dataclass(frozen=True, slots=True)
class Refusal:
    """A bound pod that its node did not run: somebody's books were wrong."""

    namespace: str
    name: str
    node: str
    reason: str
    message: str


class FakeNodes:
    """Fake nodes of one control plane. Pods bound to other nodes are left alone.

    A bound pod that its NodeAgent admits is Running after `start_latency_s`; one that is deleted is gone
    `stop_latency_s` later, and holds its devices until then. Every refusal is kept in `refusals`. Node leases are
    renewed every `lease_every_s`; None leaves them away, for large clusters where nobody reads them.
    """

    def __init__(
        self,
        control_plane: ControlPlane,
        *,
        start_latency_s: float = 0.0,
        stop_latency_s: float = 0.0,
        lease_every_s: float | None = 60.0,
    ) -> None:
        self.refusals: list[Refusal] = []
        self._refusals_expected = False
        self._kube = control_plane.kube
        self._client = control_plane.kube.client
        self._start_latency_s = start_latency_s
        self._stop_latency_s = stop_latency_s
        self._lease_every_s = lease_every_s
        self._agents: dict[str, NodeAgent] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._ending: set[str] = set()
        self._writes = asyncio.Semaphore(_WRITES)
        self._main: asyncio.Task[None] | None = None

    # -- for tests -------------------------------------------------------------------------------------------------
    def start(self) -> None:
        async def begin() -> None:
            self._main = asyncio.create_task(self._run())

        self._kube.loop.run(begin())

    def stop(self) -> None:
        """Stops playing; the nodes stay in the API. Raises what went wrong meanwhile."""

        async def end(main: asyncio.Task[None]) -> None:
            main.cancel()
            with suppress(asyncio.CancelledError):
                await main

        if self._main is not None:
            self._kube.loop.run(end(self._main))
            self._main = None

    def create(self, *nodes: FakeNode) -> None:
        """Registers the nodes, ready to take pods when this returns."""
        self._check_running()
        self._kube.loop.run(self._create(nodes))

    def remove(self, *names: str) -> None:
        """Deletes the nodes; what ran there stays in the API, as after the loss of a machine."""
        for name in names:
            self._agents.pop(name)
            self._kube.delete(NODES, name)

    def expect_refusals(self) -> None:
        """Says that this test provokes refusals and looks at them itself."""
        self._refusals_expected = True

    def check(self) -> None:
        """AssertionError when a node refused a pod and the test did not expect that."""
        if self.refusals and not self._refusals_expected:
            shown = "\n".join(map(str, self.refusals[:10]))
            raise AssertionError(f"nodes refused {len(self.refusals)} pods:\n{shown}")

    def _check_running(self) -> None:
        if self._main is None:
            raise RuntimeError("fake nodes were not started")
        if self._main.done():
            self._main.result()

    # -- nodes -----------------------------------------------------------------------------------------------------
    async def _create(self, nodes: tuple[FakeNode, ...]) -> None:
        for node in nodes:
            self._agents[node.name] = node.agent()
        async with asyncio.TaskGroup() as group:
            for node in nodes:
                group.create_task(self._register(node))

    async def _register(self, node: FakeNode) -> None:
        """Creates the Node and takes away the taint not-ready that admission puts on every new one."""
        wanted = node.document["spec"]["taints"]
        async with self._writes:
            created = await self._client.create(node.document)
            if len(created["spec"].get("taints", [])) != len(wanted):
                await self._client.patch(NODES, node.name, {"spec": {"taints": wanted}})

    async def _renew_leases(self, every_s: float) -> None:
        while True:
            names = list(self._agents)
            for name in names:
                await self._client.apply(_lease(name, int(every_s * 4)))
                await asyncio.sleep(every_s / len(names))
            if not names:
                await asyncio.sleep(0.5)

    # -- pods ------------------------------------------------------------------------------------------------------
    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            if self._lease_every_s is not None:
                group.create_task(self._renew_leases(self._lease_every_s))
            async for kind, pod in self._client.follow(PODS, field_selector="spec.nodeName!="):
                agent = self._agents.get(pod["spec"]["nodeName"])
                if agent is not None:
                    self._observe(kind, pod, agent, group)

    def _observe(self, kind: str, pod: Object, agent: NodeAgent, group: asyncio.TaskGroup) -> None:
        """What a kubelet does on an event of one of its pods."""
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            self._forget(uid, agent)
        elif "deletionTimestamp" in pod["metadata"]:
            if uid not in self._ending:
                self._ending.add(uid)
                self._replace(uid, group.create_task(self._end(pod, agent)))
        elif pod.get("status", {}).get("phase") in _FINISHED:
            agent.release(uid)
        elif uid not in self._lives:
            self._replace(uid, group.create_task(self._admit(pod, agent)))

    def _admit(self, pod: Object, agent: NodeAgent) -> Coroutine[Any, Any, None]:
        """Decides at once, in the order of the events; what follows takes its time."""
        try:
            agent.admit(pod)
        except Refused as refused:
            metadata = pod["metadata"]
            self.refusals.append(
                Refusal(metadata["namespace"], metadata["name"], agent.name, refused.reason, refused.message)
            )
            return self._report(pod, _ended("Failed", refused.reason, refused.message))
        return self._live(pod, agent)

    async def _live(self, pod: Object, agent: NodeAgent) -> None:
        await asyncio.sleep(self._start_latency_s)
        if pod["status"]["phase"] != "Running":
            await self._report(pod, _running(pod))
        seconds = pod["metadata"].get("annotations", {}).get(RUN_SECONDS)
        if seconds is not None:
            await asyncio.sleep(float(seconds))
            agent.release(pod["metadata"]["uid"])
            await self._report(pod, _ended("Succeeded"))

    async def _end(self, pod: Object, agent: NodeAgent) -> None:
        """The containers end, then the pod leaves the API for good."""
        await asyncio.sleep(self._stop_latency_s)
        metadata = pod["metadata"]
        agent.release(metadata["uid"])
        await self._write(
            lambda: self._client.delete(PODS, metadata["name"], metadata["namespace"], 0, metadata["uid"])
        )

    async def _report(self, pod: Object, status: Object) -> None:
        metadata = pod["metadata"]
        patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
        await self._write(lambda: self._client.patch(PODS, metadata["name"], patch, metadata["namespace"], "status"))

    async def _write(self, call: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Until the API server has taken it, as a kubelet does when the API server is away for a while."""
        while True:
            try:
                async with self._writes:
                    await call()
            except ApiError as err:
                if err.status < _TROUBLE:
                    return _unless_overtaken(err)
            except (aiohttp.ClientError, TimeoutError):
                pass
            else:
                return None
            await asyncio.sleep(_PAUSE_S)

    def _replace(self, uid: str, task: asyncio.Task[None]) -> None:
        """Makes `task` what the pod does from now on."""
        before = self._lives.get(uid)
        if before is not None:
            before.cancel()
        self._lives[uid] = task

    def _forget(self, uid: str, agent: NodeAgent) -> None:
        agent.release(uid)
        self._ending.discard(uid)
        task = self._lives.pop(uid, None)
        if task is not None:
            task.cancel()


def _unless_overtaken(err: ApiError) -> None:
    """The pod may have gone, or have been replaced, since the event that we answer."""
    if err.status not in _OVERTAKEN:
        raise err


def _lease(node: str, seconds: int) -> Object:
    return {
        "apiVersion": LEASES.group_version,
        "kind": "Lease",
        "metadata": {"name": node, "namespace": _LEASE_NAMESPACE},
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": seconds,
            "renewTime": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        },
    }


def _running(pod: Object) -> Object:
    now = _now()
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": _conditions("True", now),
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container.get("image", ""),
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "started": True,
                "state": {"running": {"startedAt": now}},
            }
            for container in pod["spec"]["containers"]
        ],
    }


def _ended(phase: str, reason: str = "", message: str = "") -> Object:
    status: Object = {"phase": phase, "conditions": _conditions("False", _now())}
    return status | ({"reason": reason, "message": message} if reason else {})


def _conditions(ready: str, now: str) -> list[Object]:
    states = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": ready, "Ready": ready}
    return [{"type": kind, "status": state, "lastTransitionTime": now} for kind, state in states.items()]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
