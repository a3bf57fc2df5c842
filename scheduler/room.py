"""Which nodes are kept from a pod by others' claims, and whether there is room for it on those that are left."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.charging import NodeClass
from scheduler.cluster import Cluster
from scheduler.constraints import Constraints
from scheduler.reason import Code
from scheduler.request import Request


class Kept(NamedTuple):
    """What is kept from a pod: nodes of other `classes` (None: of none), `reserved` slots, and with `strict_head` those
    that a pod before it in a strict queue may go to: its uid, and the number of changes of nodes at which that was so.
    """

    classes: frozenset[NodeClass] | None = None
    reserved: frozenset[int] = frozenset()
    strict_head: tuple[str, int] | None = None


NOTHING_KEPT: Final = Kept()


class Form(NamedTuple):
    """What pods ask for, and which nodes they may go to by rules about the node alone."""

    request: Request | None
    constraints: Constraints


class Room:
    """What is known about room for pods of one form from whom the same is kept.

    `hopeless_at` is the number of the growth up to which it is known that there is none, None when there may be some.
    """

    __slots__ = ("form", "hopeless_at", "kept", "strict_slots")

    def __init__(self, form: Form, kept: Kept, strict_slots: NDArray[np.bool_] | None) -> None:
        """`strict_slots` are the nodes of `kept.strict_head`."""
        self.form: Final = form
        self.kept: Final = kept
        self.strict_slots: Final = strict_slots
        self.hopeless_at: int | None = None

    def slots(self, cluster: Cluster) -> NDArray[np.bool_] | None:
        """bool[slots]: the nodes that are left, None for all."""
        if self.kept == NOTHING_KEPT:
            return None
        left = np.ones(len(cluster.state.inventories), np.bool_)
        if self.kept.classes is not None:
            left &= cluster.accounts.classes.mask(self.kept.classes)[: left.size]
        left[[slot for slot in self.kept.reserved if slot < left.size]] = False
        if self.strict_slots is not None:
            size = min(left.size, self.strict_slots.size)
            left[:size] &= ~self.strict_slots[:size]
        return left

    def excluded(self, cluster: Cluster) -> dict[int, Code]:
        """Slot → why it is kept from the pod."""
        found: dict[int, Code] = {}
        if self.kept.classes is not None:
            left = cluster.accounts.classes.mask(self.kept.classes)
            found |= dict.fromkeys(np.flatnonzero(~left).tolist(), Code.MODEL_OVER_LIMIT)
        found |= dict.fromkeys(self.kept.reserved, Code.RESERVED)
        if self.strict_slots is not None:
            found |= dict.fromkeys(np.flatnonzero(self.strict_slots).tolist(), Code.BEHIND_STRICT_HEAD)
        return found

    def is_hopeless(self, cluster: Cluster) -> bool:
        """Whether there is none. Brings what is known up to date: looks only at nodes where something grew since."""
        if self.hopeless_at is None:
            return False
        if self._has_opened(cluster, cluster.growth.since(self.hopeless_at)):
            self.hopeless_at = None
            return False
        self.hopeless_at = cluster.growth.now
        return True

    def _has_opened(self, cluster: Cluster, grown: frozenset[int] | None) -> bool:
        """`grown` None: anywhere."""
        request = self.form.request
        if not grown or request is None:
            return grown is None
        if not self.kept.reserved.isdisjoint(grown):
            return True  # it may leave room there now beside the one that the node is kept for
        left = self.slots(cluster)
        slots = grown if left is None else [slot for slot in grown if slot < left.size and left[slot]]
        return cluster.opens(request, self.form.constraints, slots)
