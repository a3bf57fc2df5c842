"""What happened to each pod, for the screen and the summary."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from extender_api.demo.embedded import EventKind
from extender_api.demo.objects import Object
from topology import vocabulary

PLANNING = "being planned"
WITH_SCHEDULER = "planned, at kube-scheduler"


@dataclass(slots=True)
class Story:
    """One pod; times of time.monotonic(). `reasons` are the texts that were written on it while it waited."""

    name: str
    created: float
    bound: float | None = None
    ended: bool = False
    waits_for: str = PLANNING
    reasons: set[str] = field(default_factory=set)


class Recorder:
    """Watches a cluster. `stories` is by uid."""

    def __init__(self) -> None:
        self.stories: dict[str, Story] = {}

    def changed(self, kind: EventKind, document: Object) -> None:
        """The watcher."""
        if document["kind"] != "Pod":
            return
        uid, now = document["metadata"]["uid"], time.monotonic()
        story = self.stories.setdefault(uid, Story(document["metadata"]["name"], now))
        if kind == "DELETED" or document["status"]["phase"] in ("Succeeded", "Failed"):
            story.ended = True
        elif document["spec"].get("nodeName"):
            story.bound = story.bound or now
        else:
            self._waits(story, document)

    @staticmethod
    def _waits(story: Story, document: Object) -> None:
        gates = [gate["name"] for gate in document["spec"].get("schedulingGates", [])]
        story.waits_for = PLANNING if vocabulary.GATE in gates else WITH_SCHEDULER
        for condition in document["status"].get("conditions", ()):
            story.waits_for = condition["message"]
            story.reasons.add(condition["message"])

    @property
    def created(self) -> int:
        return len(self.stories)

    @property
    def placed(self) -> int:
        """Pods that ever got a node."""
        return sum(story.bound is not None for story in self.stories.values())

    @property
    def ended(self) -> int:
        return sum(story.ended for story in self.stories.values())

    def waiting(self) -> Counter[str]:
        """Pods without a node by why."""
        return Counter(story.waits_for for story in self.stories.values() if story.bound is None)

    def waited(self) -> Counter[str]:
        """Pods, those that were placed in the end included, by every reason they were ever given."""
        return Counter(reason for story in self.stories.values() for reason in story.reasons)

    def to_bind_ms(self) -> list[float]:
        """Milliseconds from creation to the Binding, ascending."""
        return sorted(
            (story.bound - story.created) * 1000 for story in self.stories.values() if story.bound is not None
        )
