"""The last step: whether a pod may be bound to a node now, and what is written with the Binding."""

from __future__ import annotations

from typing import Final

from scheduler.allocation import Allocation, to_annotation, visible_devices
from scheduler.barrier import Barrier
from scheduler.cluster import Cluster
from scheduler.engine_settings import EngineSettings
from scheduler.instruction import BindOrder, BindRefusal, BindWait
from scheduler.ledger import Entry
from scheduler.record import PodRecord, Stage
from scheduler.request import Demand
from scheduler.roster import Roster
from topology import vocabulary

PATIENCE: Final = 5
"""After so many binds of a pod that failed in a row, the next has to wait and its place is not kept."""


class Binding:
    """Verifies at bind that the pod still holds its place, and keeps the ledger in step with the outcome."""

    def __init__(self, cluster: Cluster, roster: Roster, barrier: Barrier, settings: EngineSettings) -> None:
        self._cluster = cluster
        self._roster = roster
        self.barrier = barrier
        self._settings = settings

    def start(self, uid: str, namespace: str, name: str, node: str, now_ms: int) -> BindOrder | BindWait | BindRefusal:
        """What to write, for whom to wait first, or why not to bind. Asked again for the same pod and node it answers
        the same, as long as nothing changed.
        """
        record = self._roster.records.get(uid)
        if record is None:
            return BindRefusal(f"pod {namespace}/{name} with uid {uid} is not known (deleted, or not seen yet)")
        entry = self._cluster.ledger.entries.get(uid)
        if entry is not None and entry.node != node:
            return BindRefusal(f"planned on {entry.node}, not on {node}")
        if record.facts.deleted_ms is not None and (entry is None or not entry.bound):
            return self._too_late(record, now_ms)
        if record.request is None:
            return BindRefusal(str(record.problem))
        if record.bind_not_before_ms > now_ms:
            return BindRefusal("binds of this pod keep failing; it waits a little before the next")
        if entry is None or not (entry.bound or self._cluster.ledger.sound(entry.uid)):
            if not record.settled(now_ms):
                return BindRefusal("an earlier bind of this pod may still take effect: its place is kept until then")
            refusal = self._book(record, node, now_ms)
            if refusal is not None:
                return refusal
            entry = self._cluster.ledger.entries[uid]
        under_way = record.stage is Stage.BINDING and not record.at_barrier
        if not entry.bound:
            entry.deadline_ms = None
            record.move(Stage.BINDING, f"bind to {node}", now_ms)
        self._roster.leave(uid)
        if not entry.bound and not under_way and self.barrier.arrive(record, now_ms):
            assert record.gang is not None
            return BindWait(record.gang.key, now_ms + self._settings.gang_bind_wait_ms)
        return self._order(record, entry)

    def go_on(self, wait: BindWait, uid: str, node: str, now_ms: int) -> BindOrder | BindWait | BindRefusal:
        """After a `BindWait`, when the gang is decided or the time is over: what to write now, or to wait on."""
        record = self._roster.records.get(uid)
        entry = self._cluster.ledger.entries.get(uid)
        if record is None or record.facts.deleted_ms is not None:
            return BindRefusal("the pod was deleted while it waited for its gang")
        if entry is None or entry.node != node or not record.at_barrier:
            return BindRefusal("its gang did not come together: it is planned anew")
        return wait if self.barrier.arrive(record, now_ms) else self._order(record, entry)

    def waited_in_vain(self, uid: str, now_ms: int) -> None:
        """The member has waited as long as it may: its gang gives up, unless it was decided meanwhile."""
        record = self._roster.records.get(uid)
        if record is None or record.gang is None or not record.at_barrier or record.gang.forward:
            return
        if record.gang.opening is not None:
            # nobody knows yet whether the gang has begun: the place is kept for the next bind
            self._cluster.ledger.entries[uid].deadline_ms = now_ms + self._settings.booking_deadline_ms
            record.move(Stage.RELEASED, "the first bind of its gang takes long", now_ms)
            return
        record.failures += 1
        again_ms = now_ms + self._settings.backoff_ms(record.failures)
        self.barrier.give_up(record.gang, "its gang did not come together at bind in time", now_ms, again_ms)

    def _order(self, record: PodRecord, entry: Entry) -> BindOrder:
        facts, opens = record.facts, record.gang.key if record.gang is not None and self.barrier.opens(record) else None
        annotations = self._annotations(record, entry.allocation)
        return BindOrder(facts.uid, facts.namespace, facts.name, entry.node, annotations, opens)

    def finish(self, uid: str, bound: bool, now_ms: int, *, keep_booking: bool = True) -> None:
        """What became of the Binding.

        Not bound and `keep_booking`: nobody knows whether it still takes effect, so the place is kept for a while, for
        kube-scheduler's retry too. Not bound otherwise: the pod went, or the watch will show it on another node.
        """
        record = self._roster.records.get(uid)
        entry = self._cluster.ledger.entries.get(uid)
        if record is not None and self.barrier.opens(record):
            self._first_is_done(record, bound or keep_booking, now_ms)
        if record is None or entry is None or entry.bound:
            return
        if bound:
            self._cluster.ledger.confirm(uid)
            record.failures = 0
            record.move(Stage.BOUND, f"bound to {entry.node}", now_ms)
        elif keep_booking:
            self._keep(record, now_ms)
        else:
            self._cluster.release(uid)
            record.move(Stage.HELD, "bind failed: gone, or bound elsewhere", now_ms)
            self._roster.look_at_gang_of(record)

    def _first_is_done(self, record: PodRecord, may_be_bound: bool, now_ms: int) -> None:
        """The first Binding of a gang is written, or may be; or it failed for certain."""
        assert record.gang is not None
        if may_be_bound:
            self.barrier.opened(record.gang)
        else:
            record.gang.opening = None
            again_ms = now_ms + self._settings.release_backoff_ms
            self.barrier.give_up(record.gang, "the first bind of its gang failed", now_ms, again_ms)

    def _keep(self, record: PodRecord, now_ms: int) -> None:
        """After a bind that failed. One that keeps failing gets its place back only after a wait."""
        record.failures += 1
        record.unsure_until_ms = now_ms + self._settings.unsure_ms
        hold_ms = max(self._settings.booking_deadline_ms, self._settings.unsure_ms)
        if record.failures >= PATIENCE:
            record.bind_not_before_ms = now_ms + self._settings.backoff_ms(record.failures)
            hold_ms = self._settings.unsure_ms
        self._cluster.ledger.entries[record.uid].deadline_ms = now_ms + hold_ms
        record.move(Stage.RELEASED, "bind failed", now_ms)

    def _too_late(self, record: PodRecord, now_ms: int) -> BindRefusal:
        """The pod is being deleted. An earlier Binding that is still on its way settles what becomes of its place."""
        if record.settled(now_ms):
            self._cluster.release(record.uid)
            self._roster.leave(record.uid)
            record.move(Stage.HELD, "being deleted", now_ms)
            self._roster.look_at_gang_of(record)
        return BindRefusal("the pod is being deleted")

    def _book(self, record: PodRecord, node: str, now_ms: int) -> BindRefusal | None:
        """Books the very node, where a booking was lost to a restart or spoilt from outside."""
        assert record.request is not None
        self._cluster.release(record.uid)
        self._roster.wait(record, f"bind: booked anew on {node}", now_ms)
        if record.gang is not None:
            record.refusals += 1
            return BindRefusal("its place went; it is planned anew with its gang")
        refusal = self._admitted(record, node)
        if refusal is not None:
            return refusal
        devices = self._cluster.place_on(record.request, node)
        if devices is None:
            return BindRefusal(f"no room left on {node}")
        self._cluster.book(record.facts, record.request, Allocation(node, devices), None)
        return None

    def _admitted(self, record: PodRecord, node: str) -> BindRefusal | None:
        """Whether the pod's queue lets it start on the node; what it held may have gone to others of the queue."""
        assert record.request is not None
        if record.stage is Stage.UNQUEUED:
            return BindRefusal("no queue takes the pod")
        accounts, slot = self._cluster.accounts, self._cluster.state.slot_of.get(node)
        admission = self._cluster.admit(record)
        if admission.reason is not None:
            return BindRefusal(f"the pod's queue does not let it start: {admission.reason.code}")
        if admission.classes is not None and slot is not None and accounts.classes.of(slot) not in admission.classes:
            return BindRefusal(f"the pod's queue may not use more devices of the kind on {node}")
        return None

    def _annotations(self, record: PodRecord, allocation: Allocation) -> dict[str, str]:
        """What goes into the Binding. Nothing on a virtual node: the border would push it over the provider's."""
        node = self._cluster.node(allocation.node)
        if node is None or node.virtual:
            return {}
        annotations = {}
        if record.gang is not None:
            annotations[vocabulary.RANK] = str(record.gang_rank)
            if record.domain:
                annotations[vocabulary.TOPOLOGY_DOMAIN] = record.domain
        if not allocation.devices:
            return annotations
        annotations[vocabulary.ALLOCATION] = to_annotation(allocation)
        if record.request is not None and record.request.demand is Demand.SHARE:
            annotations[vocabulary.GPU_UUIDS] = visible_devices(allocation)
        return annotations
