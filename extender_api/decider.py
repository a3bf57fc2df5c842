"""What the webhook routes ask the running scheduler. `service.Service` answers; tests have small ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from scheduler.pod import PodFacts
from scheduler.verdict import FilterVerdict


class Decider(Protocol):
    """Answers of plan mode and of advise mode. Only `bind` may wait; all others are called on the event loop."""

    def ready(self) -> str | None:
        """Why nothing can be answered yet, as a constant phrase; None when all is well."""

    def known(self, uid: str) -> PodFacts | None:
        """The facts of a pod that the watch has shown, which saves reading it again."""

    def is_ours(self, pod: PodFacts) -> bool:
        """Whether the pod asks for our scheduler."""

    def filter(self, pod: PodFacts, offered: Sequence[str], nominated: str | None) -> FilterVerdict:
        """Plan mode. `offered` has at least one name and is not to be changed; the verdict names only offered ones.

        `nominated` is the pod's nominated node as kube-scheduler sees it.
        """

    def prioritize(self, pod: PodFacts, offered: Sequence[str]) -> Sequence[tuple[str, int]]:
        """Plan mode: whole scores, higher is better."""

    def preempt(self, pod: PodFacts, victims: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
        """Node → uids of pods to evict: which candidates stay, with which of their victims."""

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> str:
        """Binds the pod, foreign ones too. Returns the error for kube-scheduler, or an empty text."""

    def advise_filter(self, pod: PodFacts, offered: Sequence[str]) -> FilterVerdict:
        """Advise mode: removes only nodes that cannot hold the pod; books nothing."""

    def advise_prioritize(self, pod: PodFacts, offered: Sequence[str]) -> Sequence[tuple[str, int]]:
        """Advise mode: whole scores, higher is better."""
