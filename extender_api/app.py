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

from extender_api import gauges, metrics
from extender_api.cluster.client import ClientSettings, ClusterClient
from extender_api.cluster.kube_actuator import KubeActuator
from extender_api.cluster.lanes import LaneSettings
from extender_api.cluster.lease import LeaseFollower, LeaseSettings
from extender_api.cluster.node import NamespaceFacts
from extender_api.cluster.notices import NoticeSettings
from extender_api.cluster.sources import Sources
from extender_api.extender_routes import extender_app
from extender_api.listeners import Listener
from extender_api.ops_routes import ops_app
from extender_api.service import Service, wall_clock_ms
from extender_api.settings import Settings, milliseconds, parse_address
from scheduler.cluster import Cluster
from scheduler.engine import Engine, EngineSettings
from scheduler.kernels.warm import warm
from scheduler.policy import PlacementPolicy
from topology.inventory import InventorySettings

log = logging.getLogger(__name__)

GAUGES_EVERY_S: Final = 5.0
MIB: Final = 1 << 20


def inventory_settings(settings: Settings) -> InventorySettings:
    """What the settings say about devices and levels. Raises ValueError naming what is wrong."""
    return InventorySettings(
        device_resources=settings.devices.resources,
        shares_by_default=settings.devices.shares_by_default,
        reserve_mib=settings.devices.reserve_mib,
        catalogue=dict(settings.devices.catalogue),
        levels=settings.topology.levels,
    )


def new_engine(settings: Settings) -> Engine:
    """An engine with an empty cluster."""
    policy = PlacementPolicy.from_names(**settings.placement.model_dump())
    cluster = Cluster(inventory=inventory_settings(settings), policy=policy)
    return Engine(
        cluster,
        EngineSettings(
            scheduler_name=settings.scheduler_name,
            device_resources=settings.devices.resources,
            booking_deadline_ms=milliseconds(settings.gate.booking_deadline_s),
            max_in_flight=settings.gate.max_released,
            nominate_from_nodes=settings.nomination.min_nodes,
            tell_after_ms=milliseconds(settings.reasons.tell_after_s),
            retell_after_ms=milliseconds(settings.reasons.retell_after_s),
            require_device_variable=settings.gate.require_device_variable,
            fact_ttl_ms=milliseconds(settings.gate.fact_ttl_s),
        ),
    )


class App:
    """Tangram beside one kube-scheduler. `run` returns after a signal, when everything accepted is done."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._engine = new_engine(settings)
        self._warm = False
        self._stop = asyncio.Event()
        self._sources: Sources | None = None

    async def run(self) -> None:
        """Serves until SIGTERM or SIGINT. Raises ListenError, AccessError."""
        settings = self._settings
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(await ClusterClient.connect(_client_settings(settings)))
            actuator = KubeActuator(
                client,
                on_result=self._on_result,
                now_ms=wall_clock_ms,
                lanes=LaneSettings(workers=settings.limits.write_concurrency),
                notices=NoticeSettings(per_second=settings.limits.events_per_second),
            )
            self._service = service = Service(self._engine, actuator, unready=self._unready)
            extender, ops = self._listeners(service)
            extender.open()
            ops.open()
            self._sources = sources = Sources(
                client, on_pod=service.on_pod, on_node=service.on_node, on_namespace=self._on_namespace
            )
            lease = LeaseFollower(client, _lease_settings(settings), now_ms=wall_clock_ms, on_change=self._on_lease)
            service.set_active(not lease.settings.follow)
            stack.callback(metrics.watch_gc())
            with _signals(self._stop):
                async with asyncio.TaskGroup() as group:
                    tasks = [
                        group.create_task(coroutine)
                        for coroutine in (
                            self._warm_up(),
                            sources.run(),
                            lease.run(),
                            actuator.run(),
                            service.run(),
                            self._follow_gauges(),
                            metrics.watch_event_loop(),
                        )
                    ]
                    listening = [group.create_task(extender.serve()), group.create_task(ops.serve())]
                    await self._stop.wait()
                    log.info("stopping: no new work, accepted binds are finished")
                    await service.drain(settings.extender.drain_s)
                    extender.stop()
                    ops.stop()
                    await asyncio.wait(listening)
                    for task in tasks:
                        task.cancel()
        log.info("stopped")

    def _listeners(self, service: Service) -> tuple[Listener, Listener]:
        settings = self._settings
        limit_bytes = settings.extender.max_request_mib * MIB
        return (
            Listener(
                "extender",
                extender_app(service, limit_bytes=limit_bytes),
                parse_address(settings.extender.address),
                drain_s=settings.extender.drain_s,
            ),
            Listener(
                "ops",
                ops_app(settings, inventory_settings(settings), service),
                parse_address(settings.ops.address),
                drain_s=1,
            ),
        )

    # -- readiness ---------------------------------------------------------------------------------------------

    def _unready(self) -> str | None:
        if not self._warm:
            return "kernels are being compiled"
        if self._sources is None or not self._sources.synced.is_set():
            return "caches are not in sync yet"
        return None

    async def _warm_up(self) -> None:
        """Compiles the kernels beside the loop, and takes what the first lists left out of the garbage collector."""
        started = time.perf_counter()
        await asyncio.to_thread(warm)
        metrics.kernel_compile_seconds.set(time.perf_counter() - started)
        self._warm = True
        assert self._sources is not None
        await self._sources.synced.wait()
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        self._service.wake()
        log.info("ready: %d nodes, %d pods hold something", self._engine.cluster.node_count, self._entries())

    def _entries(self) -> int:
        return len(self._engine.cluster.ledger.entries)

    # -- what parts tell each other ----------------------------------------------------------------------------

    def _on_result(self, uid: str, ok: bool, _status: int) -> None:
        self._service.on_result(uid, ok)

    def _on_namespace(self, old: NamespaceFacts | None, new: NamespaceFacts | None) -> None:
        if new is not None:
            self._service.on_namespace(new.name, new.labels)
        elif old is not None:
            self._service.on_namespace(old.name, None)

    def _on_lease(self, active: bool) -> None:
        self._service.set_active(active)

    async def _follow_gauges(self) -> None:
        while True:
            await asyncio.sleep(GAUGES_EVERY_S)
            if self._sources is not None:
                gauges.update(self._engine, self._sources)


def _client_settings(settings: Settings) -> ClientSettings:
    kubeconfig = None if settings.kubeconfig is None else str(settings.kubeconfig)
    return ClientSettings(kubeconfig=kubeconfig, context=settings.context, max_writes=settings.limits.write_concurrency)


def _lease_settings(settings: Settings) -> LeaseSettings:
    given = {} if settings.lease.hostname is None else {"hostname": settings.lease.hostname}
    return LeaseSettings(
        follow=settings.lease.mode == "follow", namespace=settings.lease.namespace, name=settings.lease.name, **given
    )


async def run_offline(settings: Settings) -> None:
    """Only the stateless API, until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    ops = Listener("ops", ops_app(settings, inventory_settings(settings), None), parse_address(settings.ops.address))
    await asyncio.to_thread(warm)
    ops.open()
    with _signals(stop):
        async with asyncio.TaskGroup() as group:
            group.create_task(ops.serve())
            await stop.wait()
            ops.stop()


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


async def run(settings: Settings) -> None:
    """Runs Tangram as the settings say."""
    await (run_offline(settings) if settings.offline else App(settings).run())
