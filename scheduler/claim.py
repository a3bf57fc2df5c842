"""What a pod says about its queue, and whether it may be asked to give way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scheduler.pod import PodFacts
from topology import vocabulary
from topology.vocabulary import NON_PREEMPTIBLE_FROM, Word

VALUES: Final = (vocabulary.PREEMPTIBLE, vocabulary.NON_PREEMPTIBLE)


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """How claims are read: whose pods, the queue of those that name none, and the classes with KAI's meaning."""

    scheduler_name: str = vocabulary.DEFAULT_SCHEDULER_NAME
    default_queue: str | None = None
    priority_classes: frozenset[str] = frozenset(vocabulary.PRIORITY_CLASSES)


DEFAULT_RULES: Final = ClaimRules()


def queue_named(pod: PodFacts) -> str | None:
    """The queue that its group or owner name, else the pod's labels, in our words or else in those of others.

    Annotations do not count.
    """
    return pod.group_queue or _label(pod, vocabulary.QUEUE) or _label(pod, vocabulary.FOREIGN_QUEUE)


def is_preemptible(pod: PodFacts, rules: ClaimRules, *, kai: bool) -> bool:
    """Its group, then a label decides; else the priority, for classes and (`kai`) queues that have KAI's meaning."""
    if pod.group_preemptible is not None:
        return pod.group_preemptible
    said = _label(pod, vocabulary.PREEMPTIBILITY)
    if said in VALUES:
        return said == vocabulary.PREEMPTIBLE
    if kai or pod.priority_class in rules.priority_classes:
        return pod.priority < NON_PREEMPTIBLE_FROM
    return True


def same_claim(old: PodFacts, new: PodFacts) -> bool:
    """Whether nothing changed from which queue and preemptibility follow."""
    if (old.group_queue, old.group_preemptible) != (new.group_queue, new.group_preemptible):
        return False
    if old.labels == new.labels and old.priority == new.priority:
        return True
    words = (vocabulary.QUEUE, vocabulary.FOREIGN_QUEUE, vocabulary.PREEMPTIBILITY)
    return old.priority == new.priority and all(_label(old, word) == _label(new, word) for word in words)


def misunderstandings(pod: PodFacts) -> dict[str, str]:
    """What in the claim has no effect and looks as if it should: problem → text for the pod's author."""
    found = {}
    said = _label(pod, vocabulary.PREEMPTIBILITY)
    if said is not None and said not in VALUES:
        found["PREEMPTIBILITY_UNKNOWN"] = (
            f"label {vocabulary.PREEMPTIBILITY.key}: {said} has no effect: write {' or '.join(VALUES)}"
        )
    label = _label(pod, vocabulary.QUEUE)
    if label is not None and pod.group_queue not in (None, label):
        found["QUEUE_OF_ITS_GROUP"] = (
            f"label {vocabulary.QUEUE.key}: {label} has no effect: its group or owner is in queue {pod.group_queue}"
        )
    key = next((key for key in vocabulary.QUEUE.spellings if pod.annotations.get(key)), None)
    if key is not None and queue_named(pod) is None:
        found["QUEUE_ANNOTATION"] = f"annotation {key} has no effect: the queue is named by a label of that name"
    return found


def _label(pod: PodFacts, word: Word) -> str | None:
    return next((value for key in word.spellings if (value := pod.labels.get(key))), None)
