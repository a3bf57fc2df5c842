"""What is measured, in a registry of its own. Nothing here has a series per node or per pod.

Children of labelled metrics are kept: looking one up costs more than counting.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

registry: Final = CollectorRegistry()
PREFIX: Final = "tangram"

FAST: Final = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120)
"""Bucket bounds in seconds, from one webhook call to a bind that waits for its gang."""


def _counter(name: str, about: str, *labels: str) -> Counter:
    return Counter(name, about, labels, namespace=PREFIX, registry=registry)


def _gauge(name: str, about: str, *labels: str) -> Gauge:
    return Gauge(name, about, labels, namespace=PREFIX, registry=registry)


def _histogram(name: str, about: str, *labels: str) -> Histogram:
    return Histogram(name, about, labels, namespace=PREFIX, registry=registry, buckets=FAST)


# -- the webhooks ----------------------------------------------------------------------------------------------
extender_request_seconds: Final = _histogram(
    "extender_request_seconds", "Time to answer kube-scheduler, waiting included.", "verb"
)
extender_errors: Final = _counter(
    "extender_errors_total", "Answers to kube-scheduler that were trouble and no decision.", "verb"
)
decisions: Final = _counter(
    "decisions_total", "Decisions about pods; the reason is a code, empty where none is needed.", "outcome", "reason"
)
binds: Final = _counter("binds_total", "What became of binds.", "outcome")

# -- planning --------------------------------------------------------------------------------------------------
planning_round_seconds: Final = _histogram("planning_round_seconds", "Time of one planning round.")
packing_tables_seconds: Final = _histogram(
    "packing_tables_seconds", "Time to make the tables of the placement policy anew, beside the planning loop."
)
planning_errors: Final = _counter("planning_errors_total", "Planning rounds that failed for a fault in Tangram.")
pods_waiting: Final = _gauge("pods_waiting", "Pods of ours that wait for a plan.")
pods_in_flight: Final = _gauge("pods_in_flight", "Pods of ours that are planned or released, and not yet bound.")
pods_bound: Final = _gauge("pods_bound", "Pods of ours on a node.")
nodes: Final = _gauge("nodes", "Nodes by kind.", "kind")
devices: Final = _gauge("devices", "Devices by state: free, shared, taken, unhealthy.", "state")
device_milli: Final = _gauge(
    "device_milli", "Thousandths of devices: total, and taken by bookings and allocations.", "state"
)
device_memory_mib: Final = _gauge("device_memory_mib", "Device memory in MiB: total, and taken.", "state")
ledger_differences: Final = _gauge(
    "ledger_differences", "Bound pods whose allocation annotation is not what was written with their Binding."
)

# -- gangs -----------------------------------------------------------------------------------------------------
gangs: Final = _gauge(
    "gangs", "Gangs: waiting, starting (planned), running, broken (run below their minimum).", "state"
)

# -- queues ----------------------------------------------------------------------------------------------------
queue_amount: Final = _gauge(
    "queue_amount",
    "Devices, cores and bytes of each queue, with all below it; an unlimited quota or limit is +Inf.",
    "queue",
    "resource",
    "what",
)
queue_share_of_capacity: Final = _gauge(
    "queue_share_of_capacity", "The part, from 0 to 1, of what there is that each queue holds.", "queue", "resource"
)
queue_waiting: Final = _gauge("queue_waiting", "Workloads that wait in each queue and below.", "queue")

# -- the API server --------------------------------------------------------------------------------------------
api_calls: Final = _counter(
    "api_calls_total", "Calls to the API server by what they do and status code.", "call", "code"
)
watch_lag_seconds: Final = _gauge("watch_lag_seconds", "Time since a watch last heard anything.", "kind")
watch_relists: Final = _counter("watch_relists_total", "Lists made anew after a watch was lost.", "kind")
watch_events: Final = _counter("watch_events_total", "Events that watches have brought.", "kind")
watch_failures: Final = _counter("watch_failures_total", "Lists and watches that failed and were tried again.", "kind")
watch_trouble: Final = _counter(
    "watch_trouble_total", "Objects that could not be read, and changes that were not taken.", "kind", "what"
)
orders_waiting: Final = _gauge("orders_waiting", "Pods with a release or nomination that is not written yet.")
notices_waiting: Final = _gauge("notices_waiting", "Messages and events that are not written yet.")
notices_lost: Final = _counter(
    "notices_lost_total", "Messages and events never written: dropped for want of room, or failed.", "how"
)

# -- the process -----------------------------------------------------------------------------------------------
kernel_compile_seconds: Final = _gauge("kernel_compile_seconds", "Time that compiling or loading the kernels took.")
event_loop_lag_seconds: Final = _histogram("event_loop_lag_seconds", "How late the event loop runs what is due.")
gc_pause_seconds: Final = _histogram("gc_pause_seconds", "Pauses of Python's garbage collector.")

_request_seconds: Final[Callable[[str], Histogram]] = cache(extender_request_seconds.labels)
_error: Final[Callable[[str], Counter]] = cache(extender_errors.labels)
_decision: Final[Callable[[str, str], Counter]] = cache(decisions.labels)
_bind: Final[Callable[[str], Counter]] = cache(binds.labels)
_api_call: Final[Callable[[str, str], Counter]] = cache(api_calls.labels)


def observe_request(verb: str, seconds: float) -> None:
    """One answered webhook call."""
    _request_seconds(verb).observe(seconds)


def count_error(verb: str) -> None:
    """One webhook call that was answered with trouble."""
    _error(verb).inc()


def count_decision(outcome: str, reason: str = "") -> None:
    """One decision about a pod."""
    _decision(outcome, reason).inc()


def count_bind(outcome: str) -> None:
    """One bind, by what became of it."""
    _bind(outcome).inc()


def count_api_call(call: str, code: int | str) -> None:
    """One call to the API server; `code` is the HTTP status, or a word where there was none."""
    _api_call(call, str(code)).inc()


def set_devices(states: Mapping[str, int], *, milli: Mapping[str, int], memory_mib: Mapping[str, int]) -> None:
    """The sums over all devices, each by state."""
    for gauge, values in ((devices, states), (device_milli, milli), (device_memory_mib, memory_mib)):
        for state, value in values.items():
            gauge.labels(state).set(value)


def exposition() -> tuple[bytes, str]:
    """The text for `/metrics` and its content type."""
    return generate_latest(registry), CONTENT_TYPE_LATEST


async def watch_event_loop(interval_s: float = 0.25) -> None:
    """Measures how late the loop wakes us. Never returns."""
    while True:
        due = time.perf_counter() + interval_s
        await asyncio.sleep(interval_s)
        event_loop_lag_seconds.observe(max(time.perf_counter() - due, 0.0))


def watch_gc() -> Callable[[], None]:
    """Measures the pauses of the garbage collector from now on. Call the result to stop."""
    started = 0.0

    def on_gc(phase: str, info: Mapping[str, Any]) -> None:
        nonlocal started
        if phase == "start":
            started = time.perf_counter()
        elif started:
            gc_pause_seconds.observe(time.perf_counter() - started)

    gc.callbacks.append(on_gc)
    return lambda: gc.callbacks.remove(on_gc)
