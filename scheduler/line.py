"""Those that wait for a plan, in order, with pods that are alike standing together."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from operator import attrgetter

from scheduler.constraints import Constraints
from scheduler.record import PodRecord
from scheduler.request import Request

Form = tuple[Request | None, Constraints]
"""What pods ask for, and which nodes they may go to by rules about the node alone."""

_rank = attrgetter("rank")


def form_of(record: PodRecord) -> Form:
    """The form of a pod."""
    return (record.request, record.constraints)


class Alike:
    """Waiting pods of one form, in order. Where there is no room for one of them there is none for the others.

    `hopeless_at` is the number of the growth up to which that is known, None when there may be room.
    """

    __slots__ = ("hopeless_at", "pods")

    def __init__(self) -> None:
        self.pods: list[PodRecord] = []
        self.hopeless_at: int | None = None


class Line:
    """The waiting pods by form. Adding and removing costs little however many wait."""

    def __init__(self) -> None:
        self._alike: dict[Form, Alike] = {}

    @property
    def groups(self) -> Iterable[Alike]:
        """None of them is empty."""
        return self._alike.values()

    def add(self, record: PodRecord) -> None:
        """The pod joins. It must not change its rank or form until it is removed."""
        insort(self._alike.setdefault(form_of(record), Alike()).pods, record, key=_rank)

    def remove(self, record: PodRecord) -> None:
        """The pod, which is in the line, leaves it."""
        form = form_of(record)
        pods = self._alike[form].pods
        del pods[bisect_left(pods, record.rank, key=_rank)]
        if not pods:
            del self._alike[form]

    def alike(self, record: PodRecord) -> Alike:
        """Those that stand together with a pod of the line."""
        return self._alike[form_of(record)]

    def validate(self) -> None:
        """Raises AssertionError when pods stand in the wrong place; for tests."""
        for form, group in self._alike.items():
            assert group.pods, form
            assert group.pods == sorted(group.pods, key=_rank)
            assert all(form_of(record) == form for record in group.pods)
