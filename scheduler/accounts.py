"""The queues' books over the pods of a cluster: which queue each is in, and what it counts for there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from queues import access, division, gates
from queues.access import Choice
from queues.amounts import NOTHING, Amounts
from queues.books import Books, Charge
from queues.spec import QueueSpec, Source
from queues.tree import Tree
from scheduler.charging import NodeClass, amounts_of, depends_on_class
from scheduler.claim import ClaimRules, is_preemptible, queue_named
from scheduler.node_classes import NodeClasses
from scheduler.pod import PodFacts
from scheduler.reason import Code, Reason
from scheduler.request import Request
from topology import vocabulary


@dataclass(slots=True)
class Holding:
    """What one pod holds, and where it is charged. `leaf` None: in no queue, it makes the cluster smaller.

    A queue that got children after the pod had started stands there, too.
    """

    pod: PodFacts
    request: Request
    node_class: NodeClass
    leaf: str | None
    charge: Charge


@dataclass(frozen=True, slots=True)
class Admission:
    """What a queue says to one more pod: `reason` it may not start, or on nodes of which classes it may (None: all)."""

    reason: Reason | None = None
    classes: frozenset[NodeClass] | None = None


ADMITTED: Final = Admission()


class Accounts:
    """Tree and books, and who holds and wants what in them. `epoch` grows when queues or access to them changed."""

    def __init__(self, rules: ClaimRules) -> None:
        self.rules: Final = rules
        self.classes: Final = NodeClasses()
        self.tree = Tree()
        self.books = Books(self.tree)
        self.epoch = 0
        self.unqueued = NOTHING
        """What pods hold that are in no queue of ours: those of other schedulers, mostly."""
        self.usage: Mapping[str, Amounts] = {}
        """Usage over time by queue in parts per million, where it counts; see `division`."""
        self.usage_k_milli = 0
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._held: dict[str, Holding] = {}
        self._wanted: dict[str, tuple[str, Amounts]] = {}
        self._divided: tuple[object, ...] = ()

    # -- queues and namespaces -----------------------------------------------------------------------------------

    def set_queues(self, specs: Iterable[QueueSpec]) -> None:
        """Takes all queues anew. What is wanted has to be told again; what is held is carried over."""
        self.tree = Tree(specs)
        self.books = Books(self.tree)
        self.epoch += 1
        self.unqueued = NOTHING
        self._wanted.clear()
        used = {queue.spec.source for queue in self.tree.queues.values()}
        self.classes.whole_slices = used == {Source.KAI}
        self.classes.keys = tuple(sorted({key for queue in self.tree.queues.values() for key in queue.spec.models}))
        held, self._held = self._held, {}
        for holding in held.values():
            self.hold(holding.pod, holding.request, holding.node_class)

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Labels of a namespace, None when it went. Whether that may change who may use which queue."""
        old = self._namespaces.get(name)
        if old == labels:
            return False
        if labels is None:
            del self._namespaces[name]
        else:
            self._namespaces[name] = labels
        if self.tree.implicit:
            return False
        self.epoch += 1
        if self._default(old or {}) != self._default(labels or {}):
            for holding in [held for held in self._held.values() if held.pod.namespace == name]:
                self.hold(holding.pod, holding.request, holding.node_class)
        return True

    def choice(self, pod: PodFacts) -> Choice:
        """The queue that a pod goes into, or why none takes it."""
        labels = self._namespaces.get(pod.namespace, {})
        return access.choose(self.tree, queue_named(pod), pod.namespace, labels, self._default(labels))

    def is_preemptible(self, pod: PodFacts, leaf: str | None) -> bool:
        """Whether the pod may be asked to give way."""
        queue = None if leaf is None else self.tree.of(leaf)
        return is_preemptible(pod, self.rules, kai=queue is not None and queue.spec.source is Source.KAI)

    def _default(self, labels: Mapping[str, str]) -> str | None:
        said = next((value for key in vocabulary.DEFAULT_QUEUE.spellings if (value := labels.get(key))), None)
        return said or self.rules.default_queue

    # -- what is held ----------------------------------------------------------------------------------------------

    def hold(self, pod: PodFacts, request: Request, node_class: NodeClass) -> None:
        """The pod holds its request on a node of that class: booked, bound, or anybody's."""
        self.free(pod.uid)
        leaf = self._leaf_of(pod)
        charge = self.charge(request, node_class, self.is_preemptible(pod, leaf))
        self._held[pod.uid] = Holding(pod, request, node_class, leaf, charge)
        if leaf is None:
            self.unqueued = self.unqueued.plus(charge.amounts)
        else:
            self.books.hold(leaf, charge)

    def free(self, uid: str) -> None:
        """The pod holds nothing any more."""
        holding = self._held.pop(uid, None)
        if holding is None:
            return
        if holding.leaf is None:
            self.unqueued = self.unqueued.minus(holding.charge.amounts)
        else:
            self.books.free(holding.leaf, holding.charge)

    def holding(self, uid: str) -> Holding | None:
        """What the pod holds."""
        return self._held.get(uid)

    @property
    def holdings(self) -> Iterable[Holding]:
        """Everything that is held, by anybody."""
        return self._held.values()

    def charge(self, request: Request, node_class: NodeClass, preemptible: bool) -> Charge:
        """What a request counts for on a node of that class."""
        amounts = self._amounts(request, node_class)
        return Charge(amounts, preemptible, node_class.models if amounts.gpu_milli else ())

    def _amounts(self, request: Request, node_class: NodeClass) -> Amounts:
        return amounts_of(request, node_class.card_mib, whole_slices=self.classes.whole_slices)

    def _leaf_of(self, pod: PodFacts) -> str | None:
        """Where a pod that holds something is charged, whether or not it may use that queue (any more)."""
        if pod.scheduler_name != self.rules.scheduler_name:
            return None
        if self.tree.implicit:
            return self.tree.roots[0]
        name = queue_named(pod) or self._default(self._namespaces.get(pod.namespace, {}))
        # one that has queues below it takes no work, but what runs there from before is of its subtree
        return name if name is not None and self.tree.of(name) is not None else None

    # -- what is wanted --------------------------------------------------------------------------------------------

    def wants(self, request: Request) -> Amounts:
        """What a request counts for while it is not known where it lands: by the largest card."""
        return amounts_of(request, self.classes.largest_card_mib, whole_slices=self.classes.whole_slices)

    def want(self, uid: str, leaf: str, amounts: Amounts) -> None:
        """The pod waits for a place in the leaf."""
        self.unwant(uid)
        self._wanted[uid] = (leaf, amounts)
        self.books.want(leaf, amounts)

    def unwant(self, uid: str) -> None:
        """The pod waits no longer."""
        wanted = self._wanted.pop(uid, None)
        if wanted is not None:
            self.books.unwant(*wanted)

    # -- decisions ---------------------------------------------------------------------------------------------------

    def admit(
        self, leaf: str, request: Request, preemptible: bool, possible: Callable[[], Sequence[NodeClass]]
    ) -> Admission:
        """Whether the leaf and its ancestors let one more pod start, and on which nodes.

        `possible` gives the classes of the nodes that could hold it.
        """
        if self.tree.implicit:
            return ADMITTED
        cordoned = self._cordoned(leaf)
        if cordoned is not None:
            return Admission(Reason(Code.QUEUE_CORDONED, {"queue": cordoned}))
        charge = Charge(self.wants(request), preemptible)
        block = gates.check(self.books, leaf, charge)
        if block is not None:
            return Admission(block_reason(block))
        if not depends_on_class(request) or not (self.classes.keys or request.share_memory_mib):
            return ADMITTED
        return self._by_class(leaf, {request: 1}, preemptible, possible())

    def admit_all(
        self, leaf: str, requests: Sequence[Request], preemptible: bool, possible: Callable[[], Sequence[NodeClass]]
    ) -> Admission:
        """Whether the leaf and its ancestors let several pods start at once, and on which nodes (that bear them all).

        `possible` gives the classes of the nodes that could hold some of them.
        """
        if self.tree.implicit:
            return ADMITTED
        cordoned = self._cordoned(leaf)
        if cordoned is not None:
            return Admission(Reason(Code.QUEUE_CORDONED, {"queue": cordoned}))
        counted = Counter(requests)
        block = gates.check(self.books, leaf, Charge(self._sum(counted, self.wants), preemptible))
        if block is not None:
            return Admission(block_reason(block))
        if not any(depends_on_class(one) and (self.classes.keys or one.share_memory_mib) for one in counted):
            return ADMITTED
        return self._by_class(leaf, counted, preemptible, possible())

    @staticmethod
    def _sum(counted: Mapping[Request, int], amounts: Callable[[Request], Amounts]) -> Amounts:
        parts = [(amounts(request), count) for request, count in counted.items()]
        return Amounts(*(sum(part[index] * count for part, count in parts) for index in range(len(Amounts._fields))))

    def still_bears(self, pod: PodFacts) -> bool:
        """Whether a pod that is booked would be let in again: its queue is the same, may be used, and bears it."""
        holding = self._held.get(pod.uid)
        if holding is None or self.tree.implicit:
            return True
        leaf = self.choice(pod).queue
        if leaf is None or leaf != holding.leaf:
            return False
        self.books.free(leaf, holding.charge)
        block = gates.check(self.books, leaf, holding.charge)
        self.books.hold(leaf, holding.charge)
        return block is None and not self._cordoned(leaf)

    def _cordoned(self, leaf: str) -> str | None:
        """The queue of the path that takes no new work."""
        return next((queue.name for queue in self.tree.path(leaf) if queue.spec.cordoned), None)

    def _by_class(
        self, leaf: str, counted: Mapping[Request, int], preemptible: bool, possible: Sequence[NodeClass]
    ) -> Admission:
        """Where the amount, or which quota it counts against, depends on the node."""
        allowed, blocks = [], []
        for found in possible:
            amounts = self._sum(counted, partial(self._amounts, node_class=found))
            charge = Charge(amounts, preemptible, found.models if amounts.gpu_milli else ())
            block = gates.check(self.books, leaf, charge)
            if block is None:
                allowed.append(found)
            else:
                blocks.append(block)
        if not blocks:
            return ADMITTED
        if not allowed:
            return Admission(block_reason(blocks[0]))
        return Admission(classes=frozenset(allowed))

    @property
    def capacity(self) -> Amounts:
        """What there is to divide: what ready nodes have without what is held by pods that are in no queue."""
        left = self.classes.total.minus(self.unqueued)
        return Amounts(*(max(amount, 0) for amount in left))

    def model_shares(self) -> Mapping[str, Mapping[str, int]]:
        """Queue → GPU model → fair share in thousandths of devices, by what is held of the model now: where work that
        waits will land is not known.
        """
        if not self.classes.keys:
            return {}
        return division.model_shares(self.books, self.classes.model_gpu_milli, {})

    def divide(self) -> None:
        """Brings the fair shares up to date."""
        if self.tree.implicit:
            return
        key = (self.books, self.books.version, self.capacity, self.usage, self.usage_k_milli)
        if key != self._divided:
            division.divide(self.books, self.capacity, k_milli=self.usage_k_milli, usage=self.usage)
            self._divided = key

    def validate(self) -> None:
        """Raises AssertionError when the books are not the sum of what is held and wanted; for tests."""
        fresh = Books(self.tree)
        for holding in self._held.values():
            if holding.leaf is not None:
                fresh.hold(holding.leaf, holding.charge)
        for leaf, amounts in self._wanted.values():
            fresh.want(leaf, amounts)
        for name in fresh:
            mine, theirs = self.books[name], fresh[name]
            assert mine.allocated == theirs.allocated, name
            assert mine.allocated_non_preemptible == theirs.allocated_non_preemptible, name
            assert (mine.pending, mine.waiting) == (theirs.pending, theirs.waiting), name
            assert mine.model_gpu_milli == theirs.model_gpu_milli, name


def block_reason(block: gates.Block) -> Reason:
    """A gate's answer with its numbers."""
    numbers: dict[str, int | str] = {
        "queue": block.queue,
        "resource": block.resource,
        "asked": block.asked,
        "allocated": block.allocated,
        "bound": block.bound,
    }
    if block.model is not None:
        numbers["model"] = block.model
    return Reason(Code(block.code.value), numbers)
