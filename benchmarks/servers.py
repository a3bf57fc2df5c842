"""The servers that `benchmarks.webhooks` calls: `echo`, and `tangram` on a half-full cluster of any size.

Each prints one JSON object when it is ready: its port, and for Tangram the pods it knows. Tangram is the
real service behind its real listener; only the API server is missing: what is written succeeds at once and
comes back as a watch would bring it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from benchmarks import echo
from benchmarks.go_client import node_names
from benchmarks.pods import pod
from extender_api import listeners
from extender_api.actuator import BindOutcome, BindResult
from extender_api.cluster.decode import decode_node, decode_pod
from extender_api.demo.objects import A100, real_node
from extender_api.demo.wiring import webhooks
from extender_api.listeners import Listener
from extender_api.service import Service
from extender_api.settings import Address
from scheduler.allocation import Allocation, DeviceShare, to_annotation
from scheduler.cluster import Cluster
from scheduler.engine import Engine, EngineSettings
from scheduler.instruction import BindOrder, Instruction, Release
from scheduler.kernels.warm import warm
from scheduler.pod import PodFacts
from scheduler.policy import PlacementPolicy
from topology import vocabulary
from topology.inventory import InventorySettings

HOUR_MS: Final = 3_600_000
FOR_EVER: Final = 10_000


class NoApiServer:
    """An actuator whose writes succeed at once."""

    def __init__(self) -> None:
        self.pods: dict[str, PodFacts] = {}
        self.service: Service

    def submit(self, instruction: Instruction) -> None:
        """Only releases change what the watch shows."""
        if isinstance(instruction, Release):
            self._show(instruction.uid, gates=())
            asyncio.get_running_loop().call_soon(self.service.on_result, instruction.uid, True)

    async def bind(self, order: BindOrder) -> BindResult:
        """The pod appears on its node."""
        annotations = {**self.pods[order.uid].annotations, **order.annotations}
        self._show(order.uid, node_name=order.node, annotations=annotations)
        return BindResult(BindOutcome.BOUND)

    def _show(self, uid: str, **changes: Any) -> None:
        old = self.pods[uid]
        self.pods[uid] = replace(old, **changes)
        asyncio.get_running_loop().call_soon(self.service.on_pod, old, self.pods[uid])


class World:
    """The cluster that Tangram serves: every node carries a whole-device pod and a share; some pods are planned."""

    def __init__(self, nodes: int) -> None:
        self.actuator = NoApiServer()
        settings = EngineSettings(max_in_flight=FOR_EVER, booking_deadline_ms=HOUR_MS)
        engine = Engine(Cluster(inventory=InventorySettings(), policy=PlacementPolicy()), settings)
        self.service = self.actuator.service = Service(engine, self.actuator)
        for name in node_names(nodes):
            self.service.on_node(None, decode_node(real_node(name, A100)))
            self._load(name)

    def _load(self, node: str) -> None:
        halves = ((0, 1000, {"gpus": 1}), (1, 500, {"fraction": "0.5"}))
        for index, milli, request in halves:
            name = f"old-{node}-{index}"
            share = DeviceShare(index, A100.memory_mib * milli // 1000, milli)
            annotation = to_annotation(Allocation(node, (share,)))
            facts = _facts(name, name, **request)
            annotations = {**facts.annotations, vocabulary.ALLOCATION: annotation}
            self.service.on_pod(None, replace(facts, node_name=node, phase="Running", annotations=annotations))

    def create(self, name: str, **request: Any) -> dict[str, Any]:
        """A gated pod; what a client needs to ask about it."""
        uid = f"uid-{name}"
        facts = _facts(name, uid, gates=(vocabulary.GATE,), **request)
        self.actuator.pods[uid] = facts
        self.service.on_pod(None, facts)
        return {"name": name, "uid": uid, "gpus": 0, "fraction": ""} | request

    async def until_released(self, count: int) -> None:
        """Returns when the engine has planned and released so many pods."""
        while sum(not facts.gates for facts in self.actuator.pods.values()) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def _facts(name: str, uid: str, **options: Any) -> PodFacts:
    return decode_pod(pod(name, uid, cpu="1", **options))


async def serve_tangram(nodes: int, pods: int) -> None:
    """The real service on a cluster of `nodes`, with `pods` pods planned and released."""
    await asyncio.to_thread(warm)
    world = World(nodes)
    planning = asyncio.create_task(world.service.run())
    planned = [world.create(f"planned-{number:05d}", fraction="0.1") for number in range(pods)]
    await world.until_released(pods)
    refused = world.create("refused", gpus=8)
    gc.collect()
    gc.freeze()
    async with webhooks(world.service) as port:
        advised = {"name": "advised", "uid": "uid-advised", "gpus": 1, "fraction": ""}
        _say(port, planned=planned, refused=refused, advised=advised)
        await _until_asked_to_end()
    planning.cancel()
    await asyncio.gather(planning, return_exceptions=True)


async def serve_echo() -> None:
    """The bare application behind the same listener."""
    listener = Listener("echo", echo.app, Address("127.0.0.1", 0), drain_s=1)
    port = listener.open().port
    serving = asyncio.create_task(listener.serve())
    _say(port)
    await _until_asked_to_end()
    listener.stop()
    await serving


def _say(port: int, **more: Any) -> None:
    print(json.dumps({"port": port, **more}), flush=True)


async def _until_asked_to_end() -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    await asked.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.servers", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    kinds.add_parser("echo")
    tangram = kinds.add_parser("tangram")
    tangram.add_argument("--nodes", type=int, required=True)
    tangram.add_argument("--pods", type=int, required=True, help="pods that are planned before the first call")
    options = parser.parse_args(arguments)
    start: Callable[[], Any] = (
        serve_echo if options.kind == "echo" else lambda: serve_tangram(options.nodes, options.pods)
    )
    listeners.run(start())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
