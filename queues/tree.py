"""The hierarchy of queues: who is whose parent, and what is wrong with it. Quantities are kept elsewhere (`books`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from queues.amounts import RESOURCES, UNLIMITED
from queues.siblings import Siblings, siblings
from queues.spec import IMPLICIT, QueueSpec, Source

PRECEDENCE: Final = (Source.TANGRAM, Source.FILE, Source.KAI, Source.IMPLICIT)


class Defect(StrEnum):
    """What can be wrong with a queue. The first two keep it, and all below it, out of the tree."""

    PARENT_MISSING = "ParentMissing"
    CYCLE = "Cycle"
    DEFINED_TWICE = "DefinedTwice"
    CHILDREN_EXCEED_QUOTA = "ChildrenExceedQuota"
    CHILD_EXCEEDS_LIMIT = "ChildExceedsLimit"
    STARVED_CHILDREN = "StarvedChildren"
    """Weight 0 in a queue with children: whatever they say, nothing beyond its quota reaches them."""
    LIMIT_ZERO = "LimitZero"
    """KAI's meaning of an unset limit: nothing may run."""


BREAKING: Final = frozenset({Defect.PARENT_MISSING, Defect.CYCLE})


@dataclass(frozen=True, slots=True)
class Finding:
    """A defect of one queue, with what it is about (`resource`, `other` queue, amounts)."""

    queue: str
    defect: Defect
    numbers: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue in its place. `path` goes from the queue itself up to its top ancestor."""

    spec: QueueSpec
    path: tuple[str, ...]
    children: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def is_leaf(self) -> bool:
        """Only leaves hold workloads."""
        return not self.children


class Tree:
    """All queues that can be used, parents before children, siblings from old to young.

    Queues without a way to the top are in `broken`, with the reason in `findings`; the rest of the tree works. Without
    any queue there is one, implicit and unlimited.
    """

    def __init__(self, specs: Iterable[QueueSpec] = ()) -> None:
        findings: list[Finding] = []
        known = _first_of_each(specs, findings)
        self.implicit: Final = not known
        if self.implicit:
            known = {IMPLICIT.name: IMPLICIT}
        paths = {name: _path(known, name, findings) for name in known}
        self.broken: Final[Mapping[str, QueueSpec]] = MappingProxyType(
            {name: known[name] for name, path in paths.items() if path is None}
        )
        whole = {name: path for name, path in paths.items() if path is not None}
        children: dict[str | None, list[str]] = {}
        for name in sorted(whole, key=lambda name: known[name].age_order):
            children.setdefault(known[name].parent, []).append(name)
        self.roots: Final = tuple(children.get(None, ()))
        self.queues: Final[Mapping[str, Queue]] = MappingProxyType(
            {
                name: Queue(known[name], whole[name], tuple(children.get(name, ())))
                for name in _downwards(self.roots, children)
            }
        )
        self._siblings: Final[dict[str | None, Siblings]] = {}
        findings += _amiss(self.queues)
        self.findings: Final = tuple(sorted(findings, key=lambda found: (found.queue, found.defect)))

    def of(self, name: str) -> Queue | None:
        """A queue that can be used."""
        return self.queues.get(name)

    @property
    def leaves(self) -> Iterator[Queue]:
        """The queues that hold workloads."""
        return (queue for queue in self.queues.values() if queue.is_leaf)

    def siblings(self, parent: str | None) -> Siblings:
        """The children of a queue, or (None) the top queues, as they are divided."""
        found = self._siblings.get(parent)
        if found is None:
            queues = [self.queues[name] for name in (self.roots if parent is None else self.queues[parent].children)]
            inner = tuple(at for at, queue in enumerate(queues) if queue.children)
            found = self._siblings[parent] = siblings([queue.spec for queue in queues], inner)
        return found

    def path(self, name: str) -> Iterator[Queue]:
        """The queue and its ancestors, from below."""
        return (self.queues[step] for step in self.queues[name].path)


def _first_of_each(specs: Iterable[QueueSpec], findings: list[Finding]) -> dict[str, QueueSpec]:
    """By name; of several with one name that of the source with precedence, then the older."""
    known: dict[str, QueueSpec] = {}
    for spec in sorted(specs, key=lambda spec: (PRECEDENCE.index(spec.source), spec.age_order)):
        first = known.setdefault(spec.name, spec)
        if first is not spec:
            numbers = {"used": first.source.value, "ignored": spec.source.value}
            findings.append(Finding(spec.name, Defect.DEFINED_TWICE, numbers))
    return known


def _path(known: Mapping[str, QueueSpec], name: str, findings: list[Finding]) -> tuple[str, ...] | None:
    """From the queue to its top ancestor, None (and a finding) when there is no way up."""
    path: dict[str, None] = {}
    step: str | None = name
    while step is not None:
        if step in path:
            findings.append(Finding(name, Defect.CYCLE, {"through": " → ".join([*path, step])}))
            return None
        if step not in known:
            numbers = {"parent": step, "of": list(path)[-1]}
            findings.append(Finding(name, Defect.PARENT_MISSING, numbers))
            return None
        path[step] = None
        step = known[step].parent
    return tuple(path)


def _downwards(roots: Iterable[str], children: Mapping[str | None, list[str]]) -> Iterator[str]:
    """Parents before children, without recursion: trees may be deep."""
    stack = list(reversed(list(roots)))
    while stack:
        name = stack.pop()
        yield name
        stack.extend(reversed(children.get(name, ())))


def _amiss(queues: Mapping[str, Queue]) -> Iterator[Finding]:
    """What works and is hardly meant."""
    for queue in queues.values():
        for index, resource in enumerate(RESOURCES):
            terms = queue.spec.terms[index]
            if terms.limit == 0:
                yield Finding(queue.name, Defect.LIMIT_ZERO, {"resource": resource})
            if not queue.children:
                continue
            if terms.weight_milli == 0 and terms.quota != UNLIMITED:
                yield Finding(queue.name, Defect.STARVED_CHILDREN, {"resource": resource})
            yield from _children_beyond(queue, [queues[child] for child in queue.children], index)


def _children_beyond(queue: Queue, children: list[Queue], index: int) -> Iterator[Finding]:
    terms, resource = queue.spec.terms[index], RESOURCES[index]
    quotas = [child.spec.terms[index].quota for child in children]
    numbers: dict[str, int | str]
    if terms.quota != UNLIMITED:
        total = sum(quota for quota in quotas if quota != UNLIMITED)
        if total > terms.quota:  # what has no end of its own ends where the parent's does
            numbers = {"resource": resource, "quota": terms.quota, "children": total}
            yield Finding(queue.name, Defect.CHILDREN_EXCEED_QUOTA, numbers)
    if terms.limit == UNLIMITED:
        return
    for child in children:
        limit = child.spec.terms[index].limit
        if limit > terms.limit:
            numbers = {"resource": resource, "limit": limit, "parent": queue.name, "parent_limit": terms.limit}
            yield Finding(child.name, Defect.CHILD_EXCEEDS_LIMIT, numbers)


def sides(left: Queue, right: Queue) -> tuple[str, str] | None:
    """The ancestors of two leaves that are siblings of each other; None when one is above (or is) the other."""
    pairs = zip(reversed(left.path), reversed(right.path), strict=False)
    return next(((ours, theirs) for ours, theirs in pairs if ours != theirs), None)
