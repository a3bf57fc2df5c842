"""What kube-scheduler says about pods before the watch shows them, and after it has shown that they went."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

GONE_REMEMBERED: Final = 1 << 14


class Hearsay:
    """Two views of the same pods, each at times ahead of the other.

    A pod that only kube-scheduler has spoken of is believed in for a while: if no watch shows it in that time, it went
    before anybody saw it. A pod that went is remembered for a while, so that a late question does not bring it back.
    """

    def __init__(self, believed_ms: int) -> None:
        self._believed_ms = believed_ms
        self._until: dict[str, int] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()

    def heard(self, uid: str, now_ms: int) -> None:
        """kube-scheduler speaks of a pod that no watch has shown."""
        self._until[uid] = now_ms + self._believed_ms

    def seen(self, uid: str) -> None:
        """The watch shows the pod."""
        self._until.pop(uid, None)
        self._gone.pop(uid, None)

    def gone(self, uid: str) -> None:
        """The pod went."""
        self._until.pop(uid, None)
        self._gone[uid] = None
        if len(self._gone) > GONE_REMEMBERED:
            self._gone.popitem(last=False)

    def is_gone(self, uid: str) -> bool:
        """Whether the pod went lately."""
        return uid in self._gone

    def is_only_heard_of(self, uid: str) -> bool:
        """Whether no watch has shown the pod."""
        return uid in self._until

    def give_up(self, now_ms: int) -> list[str]:
        """Pods that are believed in no longer; each is told once."""
        found = [uid for uid, until_ms in self._until.items() if until_ms <= now_ms]
        for uid in found:
            del self._until[uid]
        return found

    def next_ms(self) -> int | None:
        """When the next one is believed in no longer."""
        return min(self._until.values(), default=None)
