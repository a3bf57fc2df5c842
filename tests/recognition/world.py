"""Objects and pods from the manifests, as a cluster would tell them.

The manifests are complete objects. Their uids are placeholders that hold owners and pods together: an API server gives
others, so that whoever creates the objects there has to put the real ones into the owner references.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from extender_api.cluster.decode import decode_pod
from scheduler.gang_spec import Group
from scheduler.membership import Membership
from scheduler.object_facts import ObjectFacts
from scheduler.pod import Owner, PodFacts
from scheduler.recognition import recognise

MANIFESTS: Final = Path(__file__).parent / "manifests"
CREATED_MS: Final = 1767225600_000
"""When everything in the manifests was made."""


@dataclass
class World:
    """`pods` by name. `unread` are kinds that are not read."""

    objects: list[ObjectFacts] = field(default_factory=list)
    pods: dict[str, PodFacts] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)

    def by_uid(self, uid: str) -> ObjectFacts | None:
        return next((found for found in self._read() if found.uid == uid), None)

    def named(self, group: str, kind: str, namespace: str, name: str) -> ObjectFacts | None:
        wanted = (group, kind, namespace, name)
        return next((it for it in self._read() if (it.group, it.kind, it.namespace, it.name) == wanted), None)

    def reads(self, group: str, kind: str) -> bool:
        return kind not in self.unread and (group, kind) != ("", "Pod")

    def of(self, name: str) -> Membership:
        """What recognition says of the pod with the name."""
        return recognise(self.pods[name], self)

    def without(self, kind: str) -> World:
        """The same after the objects of a kind were deleted."""
        return World([found for found in self.objects if found.kind != kind], self.pods, self.unread)

    def blind(self, *kinds: str) -> World:
        """The same where the kinds are not read."""
        return World(self.objects, self.pods, set(kinds))

    def with_spec(self, kind: str, spec: Mapping[str, Any], **changes: Any) -> World:
        """The same where all objects of a kind have other fields in their spec, or other facts."""
        objects = [
            replace(found, spec={**found.spec, **spec}, **changes) if found.kind == kind else found
            for found in self.objects
        ]
        return World(objects, self.pods, self.unread)

    def _read(self) -> Iterable[ObjectFacts]:
        return (found for found in self.objects if found.kind not in self.unread)


def load(name: str) -> World:
    """The world of one manifest."""
    world = World()
    for raw in _documents(name):
        if raw["kind"] == "Pod":
            pod = pod_facts(raw)
            world.pods[pod.name] = pod
        else:
            world.objects.append(object_facts(raw))
    return world


def names() -> list[str]:
    """Of all manifests."""
    return sorted(path.stem for path in MANIFESTS.glob("*.yaml"))


def object_facts(raw: Mapping[str, Any]) -> ObjectFacts:
    meta = raw["metadata"]
    owners = [found for found in meta.get("ownerReferences", ()) if found.get("controller")]
    owner = owners[0] if owners else None
    return ObjectFacts(
        api_version=raw["apiVersion"],
        kind=raw["kind"],
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        labels=meta.get("labels", {}),
        annotations=meta.get("annotations", {}),
        owner=None if owner is None else Owner(owner["kind"], owner["name"], owner["uid"], owner["apiVersion"]),
        created_ms=CREATED_MS,
        spec=raw.get("spec", {}),
        status=raw.get("status", {}),
    )


def pod_facts(raw: Mapping[str, Any]) -> PodFacts:
    reference = raw["spec"].get("workloadRef")
    return replace(
        decode_pod(dict(raw)),
        scheduling_group=raw["spec"].get("schedulingGroup", {}).get("podGroupName", ""),
        workload_ref=(reference["name"], reference["podGroup"]) if reference else None,
    )


def tree(group: Group) -> Any:
    """A group as nested plain values: the minimum of a leaf, {name: …} of an inner one."""
    return group.minimum if group.is_leaf else {child.name: tree(child) for child in group.children}


def root(found: Membership) -> Group:
    """The tree of a gang that is known."""
    assert found.spec is not None, found
    return found.spec.root


def group(found: Membership, name: str) -> Group:
    """The group with the name in the tree."""
    waiting = [root(found)]
    while waiting:
        one = waiting.pop()
        if one.name == name:
            return one
        waiting += one.children
    raise AssertionError(f"no group {name}")


@cache
def _documents(name: str) -> tuple[Mapping[str, Any], ...]:
    return tuple(yaml.safe_load_all((MANIFESTS / f"{name}.yaml").read_text(encoding="utf-8")))
