"""What happened to each pod, for the screen and the summary."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from extender_api.demo.embedded import EventKind
from extender_api.demo.objects import Object
from topology import vocabulary

PLANNING: Final = "about to be planned"
WITH_SCHEDULER: Final = "planned, at kube-scheduler"
_NOT_TOLD_YET: Final = "Scheduling is blocked due to non-empty scheduling gates"
"""What the API server itself writes on a gated pod."""


@dataclass(slots=True)
class Story:
    """One pod; times of time.monotonic().

    `why` is the phrase for what it waits for now, `message` the sentence that stands on the pod, `told` every phrase
    that was ever given.
    """

    name: str
    created: float
    bound: float | None = None
    ended: bool = False
    why: str = PLANNING
    message: str = ""
    told: set[str] = field(default_factory=set)


class Recorder:
    """Watches a cluster. `stories` is by uid; `phrase(uid, message)` is what a message says in few words."""

    def __init__(self, phrase: Callable[[str, str], str]) -> None:
        self.stories: dict[str, Story] = {}
        self._phrase = phrase

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
            self._waits(uid, story, document)

    def _waits(self, uid: str, story: Story, document: Object) -> None:
        gates = [gate["name"] for gate in document["spec"].get("schedulingGates", [])]
        story.message = _message(document)
        if vocabulary.GATE not in gates:
            story.why = WITH_SCHEDULER
        elif story.message:
            story.why = self._phrase(uid, story.message)
            story.told.add(story.why)

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
        return Counter(story.why for story in self.stories.values() if story.bound is None)

    def examples(self) -> dict[str, str]:
        """For each reason why pods wait now, the newest pod's name and what stands on it."""
        return {
            story.why: f"{story.name}: {story.message}"
            for story in self.stories.values()
            if story.bound is None and story.message
        }

    def waited(self) -> Counter[str]:
        """Pods by every reason they were ever given, those included that were placed in the end."""
        return Counter(phrase for story in self.stories.values() for phrase in story.told)

    def to_bind_ms(self) -> list[float]:
        """Milliseconds from creation to the Binding, ascending."""
        bound = ((story.bound, story.created) for story in self.stories.values())
        return sorted((at - created) * 1000 for at, created in bound if at is not None)


def _message(pod: Object) -> str:
    """Why the pod is not scheduled, as it stands on it."""
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition.get("message") != _NOT_TOLD_YET:
            return str(condition.get("message", ""))
    return ""
