"""Why a workload waits, in full: its queue level by level, what would make it start, who is before it, and when it may
start.
"""

from __future__ import annotations

from dataclasses import dataclass

from queues.amounts import RESOURCES, Amounts
from queues.runtimes import Span
from scheduler.cluster import Cluster
from scheduler.engine import Engine
from scheduler.expectation import Expectations
from scheduler.reason import Code, Reason
from scheduler.record import PodRecord, Stage
from scheduler.remedy import GATES, Remedy, remedies


@dataclass(frozen=True, slots=True)
class Level:
    """One queue on the way up, in numbers. Quotas and limits may be UNLIMITED."""

    queue: str
    asked: Amounts
    allocated: Amounts
    allocated_non_preemptible: Amounts
    quota: Amounts
    limit: Amounts
    fair_share: Amounts
    waiting: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is known about a wait. `ahead` counts those before it in its queue; `start` is from now."""

    reason: Reason | None
    queue: str
    levels: tuple[Level, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    ahead: int = 0
    start: Span | None = None
    reserved_node: str | None = None


def explain(engine: Engine, record: PodRecord, now_ms: int) -> Explanation | None:
    """The explanation of a pod that waits; None for others."""
    if record.stage is Stage.UNQUEUED:
        return Explanation(record.reason, str((record.reason.numbers if record.reason else {}).get("queue", "")))
    if record.stage is not Stage.WAITING:
        return None
    reason = engine.why(record, now_ms)
    kept = engine.reservations.of(record.uid)
    ahead = _ahead(engine, record)
    return Explanation(
        reason,
        record.queue,
        levels(engine.cluster, record),
        tuple(remedies(engine.cluster, record, reason)),
        ahead,
        _start(engine, record, reason, ahead, now_ms),
        None if kept is None else kept.node,
    )


def levels(cluster: Cluster, record: PodRecord) -> tuple[Level, ...]:
    """The queue of the pod and those above it, from below."""
    accounts = cluster.accounts
    accounts.divide()
    return tuple(
        Level(
            queue.name,
            record.wants,
            standing.allocated,
            standing.allocated_non_preemptible,
            queue.spec.quota,
            queue.spec.limit,
            standing.fair_share,
            standing.waiting,
        )
        for queue, standing in accounts.books.path(record.queue)
        if not accounts.tree.implicit
    )


def _ahead(engine: Engine, record: PodRecord) -> int:
    groups = engine.roster.line.queues.get(record.queue, {})
    return sum(1 for group in groups.values() for other in group.pods if other.rank < record.rank)


# -- when ------------------------------------------------------------------------------------------------------------


def _start(engine: Engine, record: PodRecord, reason: Reason | None, ahead: int, now_ms: int) -> Span | None:
    """From when to when it may start, from now. What stands before it makes the end unknown, not the beginning."""
    if reason is None or record.request is None:
        return None
    if reason.code in GATES:
        span = _when_the_queue_gives_back(engine.cluster, engine.expectations, reason, now_ms)
    elif reason.nodes:
        kept = engine.reservations.of(record.uid) or engine.reservations.outlook(record, now_ms)
        if kept is None or kept.low_ms is None:
            return None
        high_ms = None if kept.high_ms is None else max(kept.high_ms - now_ms, 0)
        span = Span(max(kept.low_ms - now_ms, 0), high_ms)
        if engine.reservations.of(record.uid) is not None:
            return span
    else:
        return None
    if span is not None and ahead:
        return Span(span.low_ms, None)
    return span


def _when_the_queue_gives_back(
    cluster: Cluster, expectations: Expectations, reason: Reason, now_ms: int
) -> Span | None:
    """When enough of what the blocking queue holds has ended, those that end first before."""
    accounts, numbers = cluster.accounts, reason.numbers
    queue, resource = str(numbers["queue"]), RESOURCES.index(str(numbers["resource"]))
    missing = int(numbers["asked"]) + int(numbers["allocated"]) - int(numbers["bound"])
    ends = []
    for holding in accounts.holdings:
        if holding.leaf is None or queue not in accounts.tree.queues[holding.leaf].path:
            continue
        if reason.code is Code.NON_PREEMPTIBLE_OVER_QUOTA and holding.charge.preemptible:
            continue
        amount = holding.charge.amounts[resource]
        span = expectations.end_of(holding.pod, now_ms) if amount else None
        if span is not None:
            ends.append((span.low_ms, span.high_ms, amount))
    low_ms = _reached([(low, amount) for low, _, amount in ends], missing)
    if low_ms is None:
        return None
    return Span(low_ms, _reached([(high, amount) for _, high, amount in ends if high is not None], missing))


def _reached(ends: list[tuple[int, int]], missing: int) -> int | None:
    """When so much has been given back, None when never."""
    for at_ms, amount in sorted(ends):
        missing -= amount
        if missing <= 0:
            return at_ms
    return None
