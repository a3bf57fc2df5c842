"""Those that wait for a plan, by queue and in order, with pods that are alike standing together."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from queues.order import Rank
from queues.runtimes import Span
from scheduler.constraints import Constraints
from scheduler.gang import Gang
from scheduler.gang_spec import GangKey
from scheduler.reason import Reason
from scheduler.record import PodRecord
from scheduler.room import Form, Kept, Room

LAST: Final = Rank(True, 1 << 62, 1 << 62, "")
ROOMS_REMEMBERED: Final = 1 << 14

_rank = attrgetter("rank")


class Mark(NamedTuple):
    """Circumstances: as long as they are the same, what keeps a group from starting still does.

    Numbers of changes: of the queues, of reservations, of classes of nodes, and of the times that the group's queue or
    one above it came to hold less; and the uid of the pod that holds up a strict queue, with the resource of which its
    queue has to hold less first ("": it waits for room).
    """

    epoch: int = -1
    reservations: int = 0
    classes: int = 0
    freed: int = 0
    strict_head: tuple[str, str] | None = None


class Kind(NamedTuple):
    """What makes waiting pods alike. `runtime_ms` is how long they say that they run, None when they say nothing.

    Members of a gang stand together, whatever they ask for: with `gang` the rest says nothing.
    """

    queue: str
    preemptible: bool
    form: Form
    runtime_ms: int | None
    gang: GangKey | None = None


def form_of(record: PodRecord) -> Form:
    """The form of a pod."""
    return Form(record.request, record.constraints)


class Alike:
    """Waiting pods of one kind, in order. What keeps one of them from starting keeps the others, too.

    `block` is why their queue lets none of them start, `room` what is known about room for them; both hold while the
    circumstances are those of `mark`.

    Or the waiting members of a `gang`. `vain_at` is then the number of the growth at which its next step fitted
    nowhere, `reason` why, `again_ms` when it is worth another try, and `vain` the tries in vain since it changed.
    """

    __slots__ = (
        *("block", "gang", "kind", "mark", "pods", "room", "tried_rank", "tried_span"),
        *("again_ms", "reason", "vain", "vain_at"),
    )

    def __init__(self, kind: Kind) -> None:
        self.kind: Final = kind
        self.gang: Gang | None = None
        self.pods: list[PodRecord] = []
        self.room: Room | None = None
        self.tried_rank: Rank = LAST
        """Of the pod about which that was found out, and how long it would run; matters where nodes are reserved."""
        self.tried_span: Span | None = None
        self.forget()

    def forget(self) -> None:
        """What was found out about a gang holds no longer: its members are others."""
        self.block: Reason | None = None
        self.mark = Mark()
        self.reason: Reason | None = None
        self.vain_at: int | None = None
        self.again_ms = self.vain = 0


class Line:
    """The waiting pods by queue and kind. Adding and removing costs little however many wait."""

    def __init__(self) -> None:
        self._queues: dict[str, dict[Kind, Alike]] = {}
        self._rooms: dict[tuple[Form, Kept, bytes], Room] = {}
        self.vain: dict[str, tuple[Mark, int]] = {}
        """Queues of which nobody may start or has room, and the circumstances and number of the growth at which."""

    @property
    def groups(self) -> Iterable[Alike]:
        """None of them is empty."""
        return (group for groups in self._queues.values() for group in groups.values())

    @property
    def queues(self) -> Mapping[str, Mapping[Kind, Alike]]:
        """Queues in which somebody waits."""
        return self._queues

    def add(self, record: PodRecord) -> None:
        """The pod joins. It must not change its rank or kind until it is removed."""
        self.vain.pop(record.queue, None)
        groups = self._queues.setdefault(record.queue, {})
        kind = _kind_of(record)
        group = groups.get(kind)
        if group is None:
            group = groups[kind] = Alike(kind)
        insort(group.pods, record, key=_rank)
        if kind.gang is not None:
            group.gang = record.gang
            group.forget()

    def remove(self, record: PodRecord) -> None:
        """The pod, which is in the line, leaves it."""
        self.vain.pop(record.queue, None)
        groups = self._queues[record.queue]
        kind = _kind_of(record)
        pods = groups[kind].pods
        del pods[bisect_left(pods, record.rank, key=_rank)]
        if kind.gang is not None:
            groups[kind].forget()
        if not pods:
            del groups[kind]
            if not groups:
                del self._queues[record.queue]

    def changed(self, gang: Gang) -> None:
        """Members of the gang that do not wait, or what is known of it, changed."""
        for queue in {record.queue for record in gang.members.values()}:
            group = self._queues.get(queue, {}).get(Kind(queue, True, NO_FORM, None, gang.key))
            if group is not None:
                group.forget()
                self.vain.pop(queue, None)

    def alike(self, record: PodRecord) -> Alike:
        """Those that stand together with a pod of the line."""
        return self._queues[record.queue][_kind_of(record)]

    def room(self, form: Form, kept: Kept, strict_slots: NDArray[np.bool_] | None = None) -> Room:
        """What is known about room for a form: the same for all queues from which the same is kept."""
        key = (form, kept, b"" if strict_slots is None else strict_slots.tobytes())
        found = self._rooms.get(key)
        if found is None:
            if len(self._rooms) >= ROOMS_REMEMBERED:
                self._rooms.clear()
            found = self._rooms[key] = Room(form, kept, strict_slots)
        return found

    def validate(self) -> None:
        """Raises AssertionError when pods stand in the wrong place; for tests."""
        for queue, groups in self._queues.items():
            assert groups, queue
            for kind, group in groups.items():
                assert group.pods, kind
                assert group.kind == kind
                assert kind.queue == queue
                assert group.pods == sorted(group.pods, key=_rank)
                assert all(_kind_of(record) == kind for record in group.pods)


NO_FORM: Final = Form(None, Constraints())


def _kind_of(record: PodRecord) -> Kind:
    if record.gang is not None:
        return Kind(record.queue, True, NO_FORM, None, record.gang.key)
    return Kind(record.queue, record.preemptible, form_of(record), record.runtime_ms)
