"""Pods that are released although there is no room for them, so that an autoscaler sees them and brings nodes.

Autoscalers call no extender: they take a pod as unschedulable while the in-tree filters find no node for it, and buy
what these miss. So only such pods are released here; a share, or a pod for which a node only seems to have room, stays
gated.
"""

from __future__ import annotations

import numpy as np

from queues.amounts import RESOURCES, UNLIMITED, Amounts
from queues.books import Books, Charge, Standing
from queues.spec import QueueSpec
from scheduler import planner
from scheduler.cluster import Cluster
from scheduler.instruction import Expose
from scheduler.line import Alike
from scheduler.record import PodRecord
from scheduler.request import Demand
from scheduler.roster import Roster


class Exposure:
    """Exposes waiting pods of queues that ask for it, never more than what the queues admit beside what they hold.

    `hidden` are queues of which some pod waits for room and cannot be shown to an autoscaler.
    """

    def __init__(self, cluster: Cluster, roster: Roster, most: int) -> None:
        """At most `most` pods are exposed at once."""
        self._cluster = cluster
        self._roster = roster
        self._most = most
        self._exposed: dict[str, tuple[str, Charge]] = {}
        self._not_before_ms: dict[str, int] = {}
        self._books = Books(cluster.accounts.tree)
        self.hidden: frozenset[str] = frozenset()

    def look(self, now_ms: int) -> None:
        """Orders the release of pods that only room is missing for."""
        tree = self._cluster.accounts.tree
        if self._books.tree is not tree:
            self._books = Books(tree)
            for leaf, charge in self._exposed.values():
                if leaf in tree.queues:
                    self._books.hold(leaf, charge)
        self._forget_those_that_wait_no_longer()
        hidden = set()
        visible = {leaf for leaf in self._roster.line.queues if tree.queues[leaf].spec.autoscaling_visible}
        for group in self._roster.line.groups if visible else ():
            self._count_the_released(group)
        for leaf in sorted(visible):
            groups = self._roster.line.queues[leaf]
            for group in sorted(groups.values(), key=lambda group: group.pods[0].rank):
                if group.block is None and self._expose(group, now_ms):
                    hidden.add(leaf)
        self.hidden = frozenset(hidden)

    def _expose(self, group: Alike, now_ms: int) -> bool:
        """Exposes pods of the group as far as it may be. Whether some lack room that autoscalers would see."""
        hidden = False
        seems_to_fit: bool | None = None
        for record in group.pods:
            if len(self._exposed) >= self._most:
                break
            if record.uid in self._exposed or not record.facts.gated_by_us:
                continue
            if self._not_before_ms.get(record.uid, 0) > now_ms:
                continue
            # members of a gang differ; of those alike the first speaks for all
            odd = group.gang is not None or planner.form(self._cluster, record, now_ms) is None
            if not planner.hopeless(self._cluster, self._roster.line, record, now_ms):
                if odd:
                    continue
                break  # nobody of the group has been looked at
            if odd or seems_to_fit is None:
                seems_to_fit = self._seems_to_fit(record)
            if seems_to_fit:
                hidden = True
                if odd:
                    continue
                break
            charge = self._charge(record)
            if not self._admits(record.queue, charge):
                break
            self._hold(record, charge)
            record.exposed = True
            facts = record.facts
            self._roster.outbox.append(Expose(facts.uid, facts.namespace, facts.name, facts.gates))
        return hidden

    def _count_the_released(self, group: Alike) -> None:
        """Pods without a gate, as after a restart, are seen by autoscalers whoever took it off, and in any queue."""
        for record in group.pods:
            if not record.facts.gates and record.uid not in self._exposed:
                self._hold(record, self._charge(record))

    def _charge(self, record: PodRecord) -> Charge:
        """What the pod will count for: for the GPU models that all nodes that could hold it have in common."""
        accounts, models = self._cluster.accounts, None
        if accounts.classes.keys and record.wants.gpu_milli:
            assert record.request is not None
            for of in accounts.classes.among(self._cluster.could_hold(record.request, record.constraints)):
                models = set(of.models) if models is None else models & set(of.models)
        return Charge(record.wants, record.preemptible, tuple(sorted(models or ())))

    def _hold(self, record: PodRecord, charge: Charge) -> None:
        self._books.hold(record.queue, charge)
        self._exposed[record.uid] = (record.queue, charge)

    def clear(self) -> None:
        """Another replica acts: what was ordered may not have been done. Pods without a gate are found again."""
        self._exposed.clear()
        self._books = Books(self._cluster.accounts.tree)

    def failed(self, uid: str, again_ms: int) -> None:
        """The pod's gate could not be taken off; it is not tried again before a while has passed."""
        self.forget(uid)
        self._not_before_ms[uid] = again_ms

    def shows(self, uid: str) -> bool:
        """Whether the pod is exposed, or its release for that is on its way."""
        return uid in self._exposed

    def forget(self, uid: str) -> None:
        """The pod is not exposed (any more)."""
        leaf, charge = self._exposed.pop(uid, (None, None))
        if leaf is not None and charge is not None and leaf in self._books.tree.queues:
            self._books.free(leaf, charge)

    def _forget_those_that_wait_no_longer(self) -> None:
        waiting = self._roster.waiting
        for uid, (leaf, charge) in list(self._exposed.items()):
            record = waiting.get(uid)
            if record is None or record.queue != leaf or record.wants != charge.amounts:
                self.forget(uid)  # one that waits on, elsewhere or for something else, is found again
        for uid in [uid for uid in self._not_before_ms if uid not in waiting]:
            del self._not_before_ms[uid]

    def _admits(self, leaf: str, charge: Charge) -> bool:
        """Whether limits, and quotas for what cannot give way, bear the pod beside what is held and what is exposed."""
        for queue, standing in self._cluster.accounts.books.path(leaf):
            exposed = self._books[queue.name]
            held = standing.allocated.plus(exposed.allocated)
            if not _within(held, charge.amounts, queue.spec.limit):
                return False
            fixed = standing.allocated_non_preemptible.plus(exposed.allocated_non_preemptible)
            if not charge.preemptible and not _within(fixed, charge.amounts, queue.spec.quota):
                return False
            if any(self._beyond_model(queue.spec, standing, model, charge) for model in charge.models):
                return False
        return True

    def _beyond_model(self, spec: QueueSpec, standing: Standing, model: str, charge: Charge) -> bool:
        terms, exposed, asked = spec.models.get(model), self._books[spec.name], charge.amounts.gpu_milli
        if terms is None:
            return False
        held = standing.model_gpu_milli.get(model, 0) + exposed.model_gpu_milli.get(model, 0)
        fixed = standing.model_fixed_gpu_milli.get(model, 0) + exposed.model_fixed_gpu_milli.get(model, 0)
        if terms.limit != UNLIMITED and held + asked > terms.limit:
            return True
        return not charge.preemptible and terms.quota != UNLIMITED and fixed + asked > terms.quota

    def _seems_to_fit(self, record: PodRecord) -> bool:
        """Whether an autoscaler would find room on a node there is: shares do not show in what nodes count."""
        request, state = record.request, self._cluster.state
        if request is None or request.demand is Demand.SHARE:
            return True
        ask = state.ask(request)
        mask = self._cluster.mask(record.facts, record.constraints)
        enough = (state.arrays.free[: mask.size, ask.columns] >= ask.amounts).all(axis=1)
        return bool(np.any(mask & enough))


def _within(held: Amounts, asked: Amounts, bound: Amounts) -> bool:
    return all(
        not asked[index] or bound[index] == UNLIMITED or held[index] + asked[index] <= bound[index]
        for index in range(len(RESOURCES))
    )
