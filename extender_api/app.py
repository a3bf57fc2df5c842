"""The process: builds the parts from the settings, runs them on one loop, and ends them in good order."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import time
from collections.abc import Iterator
from typing import Final

from extender_api import api_calls, metrics, queue_views
from extender_api.cluster.client import ClientSettings, ClusterClient
from extender_api.cluster.kube_actuator import KubeActuator
from extender_api.cluster.lanes import LaneSettings
from extender_api.cluster.lease import LeaseFollower, LeaseSettings
from extender_api.cluster.node import NamespaceFacts
from extender_api.cluster.notices import NoticeSettings
from extender_api.cluster.object_source import ObjectSource
from extender_api.cluster.queue_source import QueueSource
from extender_api.cluster.queue_status import QueueStatusSettings, QueueStatusWriter
from extender_api.cluster.sources import Sources
from extender_api.cluster.topology_source import TopologySource
from extender_api.cluster.usage_store import UsageStore
from extender_api.core_settings import claim_rules, inventory_settings, new_engine
from extender_api.extender_routes import extender_app
from extender_api.gauges import Gauges
from extender_api.listeners import Listener
from extender_api.ops_routes import ops_app
from extender_api.plan_service import PlanBeside, PlanHere
from extender_api.service import Service, wall_clock_ms
from extender_api.settings import Settings, parse_address
from extender_api.usage import UsageFollower
from scheduler.kernels.warm import warm

log = logging.getLogger(__name__)

GAUGES_EVERY_S: Final = 2.0
MIB: Final = 1 << 20
OPS_DRAIN_S: Final = 1.0


async def run(settings: Settings) -> None:
    """Runs Tangram as the settings say, until SIGTERM or SIGINT. Raises ListenError, AccessError."""
    stop = asyncio.Event()
    with _signals(stop):
        await (_run_offline(settings, stop) if settings.offline else _run_with_cluster(settings, stop))
    log.info("stopped")


async def _run_offline(settings: Settings, stop: asyncio.Event) -> None:
    """Only the stateless API."""
    plans = PlanHere(inventory_settings(settings), claim_rules(settings))
    app = ops_app(plans, None, limit_bytes=settings.ops.max_request_mib * MIB)
    ops = Listener("ops", app, parse_address(settings.ops.address), drain_s=OPS_DRAIN_S)
    ops.open()
    await asyncio.to_thread(warm)
    serving = asyncio.create_task(ops.serve())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
    ops.stop()
    stopping.cancel()
    await serving


async def _run_with_cluster(settings: Settings, stop: asyncio.Event) -> None:
    async with await ClusterClient.connect(_client_settings(settings)) as client:
        client.on_call = api_calls.count
        await App(settings, client).run(stop)


class App:
    """Tangram beside one kube-scheduler: the parts, and what they tell each other."""

    def __init__(self, settings: Settings, client: ClusterClient) -> None:
        self._settings: Final = settings
        self._warm = False
        self._actuator: Final = KubeActuator(
            client,
            on_result=lambda uid, ok, _: self._service.on_result(uid, ok),
            now_ms=wall_clock_ms,
            may_write=lambda: self._lease.may_write(),
            lanes=LaneSettings(workers=settings.limits.write_concurrency),
            notices=NoticeSettings(per_second=settings.limits.events_per_second),
        )
        self._objects: Final = ObjectSource(client, lambda old, new: self._service.on_object(old, new))
        self._service: Final = Service(
            new_engine(settings, self._objects),
            self._actuator,
            unready=self._unready,
            catch_up=self._catch_up,
            forget=self._actuator.stand_down,
        )
        self._sources: Final = Sources(
            client, on_pod=self._service.on_pod, on_node=self._service.on_node, on_namespace=self._on_namespace
        )
        self._queues: Final = QueueSource(client, self._service.set_queues, file=settings.queues.file)
        self._topologies: Final = TopologySource(client, self._service.set_topologies, file=self._queues.file)
        self._lease: Final = LeaseFollower(
            client, _lease_settings(settings), now_ms=wall_clock_ms, on_change=self._service.set_active
        )
        self._statuses: Final = QueueStatusWriter(
            client,
            self._queues.ours.objects.get,
            now_ms=wall_clock_ms,
            may_write=lambda: self._service.active and self._lease.may_write(),
            settings=QueueStatusSettings(every_s=settings.queues.status_every_s),
        )
        usage = settings.usage
        self._usage: Final = UsageFollower(
            self._service, usage, UsageStore(client, usage.namespace, usage.config_map), clock=wall_clock_ms
        )
        self._plans: Final = PlanBeside(
            inventory_settings(settings), claim_rules(settings), limit_s=settings.ops.plan_s
        )
        followed = [self._lease.reflector] if self._lease.settings.follow else []
        fixed = [
            *self._sources.reflectors.values(),
            *self._queues.reflectors.values(),
            *self._topologies.reflectors.values(),
            *followed,
        ]
        self._gauges: Final = Gauges(
            self._service.engine, lambda: [*fixed, *self._objects.reflectors.values()], self._actuator
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Serves until `stop`, then ends when everything accepted is done. Raises ListenError."""
        if self._lease.settings.follow:
            self._service.set_active(False)
        extender, ops = self._listeners()
        extender.open()
        ops.open()
        with contextlib.ExitStack() as stack:
            stack.callback(metrics.watch_gc())
            stack.callback(self._plans.close)
            async with asyncio.TaskGroup() as group:
                working = [group.create_task(self._work(), name="work")]
                serving = [group.create_task(listener.serve()) for listener in (extender, ops)]
                await stop.wait()
                log.info("stopping: no new work, accepted binds are finished")
                await self._service.drain(self._settings.extender.drain_s)
                extender.stop()
                ops.stop()
                await asyncio.wait(serving)
                for task in working:
                    task.cancel()

    async def _work(self) -> None:
        """All that goes on beside answering."""
        async with asyncio.TaskGroup() as group:
            for coroutine in (
                self._get_ready(),
                self._sources.run(),
                self._queues.run(),
                self._topologies.run(),
                self._objects.run(),
                self._statuses.run(),
                self._usage.run(),
                self._lease.run(),
                self._actuator.run(),
                self._service.run(),
                self._follow_gauges(),
                metrics.watch_event_loop(),
            ):
                group.create_task(coroutine)

    def _listeners(self) -> tuple[Listener, Listener]:
        settings = self._settings
        extender = Listener(
            "extender",
            extender_app(self._service, limit_bytes=settings.extender.max_request_mib * MIB),
            parse_address(settings.extender.address),
            drain_s=settings.extender.drain_s,
        )
        app = ops_app(self._plans, self._service, limit_bytes=settings.ops.max_request_mib * MIB)
        return extender, Listener("ops", app, parse_address(settings.ops.address), drain_s=OPS_DRAIN_S)

    # -- readiness ---------------------------------------------------------------------------------------------

    def _unready(self) -> str | None:
        if not self._warm:
            return "kernels are being compiled"
        if not self._sources.synced.is_set():
            return "caches are not in sync yet"
        if not self._queues.synced.is_set():
            return "; ".join(["queues are not read yet", *self._queues.problems[:1]])
        if not self._objects.synced.is_set() or not self._topologies.synced.is_set():
            return "; ".join(["owners, groups and topologies are not read yet", *self._objects.problems[:1]])
        stale = self._sources.stale(self._settings.cluster.stale_after_s)
        if stale is not None:
            return f"nothing was heard from the API server for too long: kind {stale}"
        return None

    async def _catch_up(self) -> None:
        """For the one that takes over: what the former one has sent has taken effect or never will, and is known."""
        await self._lease.settle()
        await self._sources.catch_up()

    async def _get_ready(self) -> None:
        """Compiles the kernels beside the loop, and takes what the first lists left out of the garbage collector."""
        started = time.perf_counter()
        await asyncio.to_thread(warm)
        metrics.kernel_compile_seconds.set(time.perf_counter() - started)
        self._warm = True
        await self._sources.synced.wait()
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        self._service.wake()
        cluster = self._service.engine.cluster
        log.info("ready: %d nodes, %d pods hold something", cluster.node_count, len(cluster.ledger.entries))

    # -- what parts tell each other ----------------------------------------------------------------------------

    def _on_namespace(self, old: NamespaceFacts | None, new: NamespaceFacts | None) -> None:
        if new is not None:
            self._service.on_namespace(new.name, new.labels)
        elif old is not None:
            self._service.on_namespace(old.name, None)

    async def _follow_gauges(self) -> None:
        while True:
            await asyncio.sleep(GAUGES_EVERY_S)
            try:
                self._gauges.update()
                self._statuses.submit(
                    queue_views.statuses(self._service.engine) if self._service.ready() is None else {}
                )
            except Exception:
                # numbers for people must not end the process that answers webhooks
                log.exception("metrics and statuses could not be brought up to date")


def _client_settings(settings: Settings) -> ClientSettings:
    kubeconfig = None if settings.kubeconfig is None else str(settings.kubeconfig)
    return ClientSettings(kubeconfig=kubeconfig, context=settings.context, max_writes=settings.limits.write_concurrency)


def _lease_settings(settings: Settings) -> LeaseSettings:
    given = {} if settings.lease.hostname is None else {"hostname": settings.lease.hostname}
    return LeaseSettings(
        follow=settings.lease.mode == "follow", namespace=settings.lease.namespace, name=settings.lease.name, **given
    )


@contextlib.contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
