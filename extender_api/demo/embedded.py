"""A cluster in memory: what an API server does to pods and nodes, as far as the demo's scheduling goes.

Objects are JSON documents. Every write makes a new document, so whoever got one may keep it. Watchers are
called in the order of the writes, but never before the write has returned, as with a real watch.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

from extender_api.demo.objects import Object
from topology import vocabulary

EventKind = Literal["ADDED", "MODIFIED", "DELETED"]
Watcher = Callable[[EventKind, Object], None]
_ENV_FROM_ANNOTATION: Final = {
    "name": vocabulary.VISIBLE_DEVICES_ENV,
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{vocabulary.GPU_UUIDS}']"}},
}


class NotFoundError(LookupError):
    """The object is not there (404)."""


class ConflictError(Exception):
    """The write is refused because the object is in another state (409)."""


class EmbeddedCluster:
    """Pods by uid, nodes by name, watchers.

    `bindings` counts the Bindings accepted; `told` has the last event that was written about each pod, by uid.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.told: dict[str, str] = {}
        self.bindings = 0
        self._watchers: list[Watcher] = []
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)

    def watch(self, watcher: Watcher) -> None:
        """Calls `watcher` for all that is there, and for every change from now on."""
        for document in (*self.nodes.values(), *self.pods.values()):
            watcher("ADDED", document)
        self._watchers.append(watcher)

    def add_node(self, node: Object) -> None:
        """Creates a node."""
        node = copy.deepcopy(node)
        node["metadata"]["resourceVersion"] = str(next(self._versions))
        self.nodes[node["metadata"]["name"]] = node
        self._tell_watchers("ADDED", node)

    def create_pod(self, pod: Object) -> str:
        """Creates a pod as the API server with our admission policies does; returns its uid."""
        pod = copy.deepcopy(pod)
        uid = f"00000000-0000-4000-8000-{next(self._uids):012d}"
        pod["metadata"] |= {"uid": uid, "creationTimestamp": _timestamp()}
        pod["spec"].setdefault("priority", 0)
        _admit(pod)
        self._store("ADDED", pod)
        return uid

    def pod(self, uid: str) -> Object:
        """The pod as it is now. Raises NotFoundError."""
        try:
            return self.pods[uid]
        except KeyError:
            raise NotFoundError(f"no pod with uid {uid}") from None

    def ungate(self, uid: str) -> None:
        """Takes our gate off. Raises NotFoundError, and ConflictError when it is not on."""
        pod = self._draft(uid)
        gates = pod["spec"].get("schedulingGates", [])
        if not any(gate["name"] == vocabulary.GATE for gate in gates):
            raise ConflictError(f"pod {pod['metadata']['name']} does not carry {vocabulary.GATE}")
        pod["spec"]["schedulingGates"] = [gate for gate in gates if gate["name"] != vocabulary.GATE]
        self._store("MODIFIED", pod)

    def set_status(self, uid: str, **members: Any) -> None:
        """Sets members of the pod's status. Raises NotFoundError."""
        pod = self._draft(uid)
        pod["status"] |= members
        self._store("MODIFIED", pod)

    def set_condition(self, uid: str, *, reason: str, message: str) -> None:
        """Sets the PodScheduled condition to False with a reason and a message. Raises NotFoundError."""
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        if self.pod(uid)["status"].get("conditions") != [condition]:
            self.set_status(uid, conditions=[condition])

    def bind(self, uid: str, node: str, annotations: Mapping[str, str]) -> None:
        """The Binding subresource with its uid precondition and its annotations, in one write.

        Raises NotFoundError, and ConflictError for a pod that has a node already, still has gates, or is
        being deleted.
        """
        pod = self._draft(uid)
        name = pod["metadata"]["name"]
        if node not in self.nodes:
            raise NotFoundError(f"no node {node}")
        if pod["spec"].get("nodeName"):
            raise ConflictError(f"pod {name} is already assigned to node {pod['spec']['nodeName']}")
        if pod["spec"].get("schedulingGates"):
            raise ConflictError(f"pod {name} has non-empty .spec.schedulingGates")
        if pod["metadata"].get("deletionTimestamp"):
            raise ConflictError(f"pod {name} is being deleted, cannot be assigned to a host")
        pod["spec"]["nodeName"] = node
        pod["metadata"]["annotations"] |= annotations
        pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
        pod["status"].pop("nominatedNodeName", None)
        self.bindings += 1
        self._store("MODIFIED", pod)

    def tell(self, uid: str, text: str) -> None:
        """Writes an event about the pod. Raises NotFoundError."""
        self.pod(uid)
        self.told[uid] = text

    def delete_pod(self, uid: str) -> None:
        """Deletes at once. Raises NotFoundError."""
        pod = self._draft(uid)
        pod["metadata"]["deletionTimestamp"] = _timestamp()
        pod["metadata"]["resourceVersion"] = str(next(self._versions))
        del self.pods[uid]
        self._tell_watchers("DELETED", pod)

    def _draft(self, uid: str) -> Object:
        return copy.deepcopy(self.pod(uid))

    def _store(self, kind: EventKind, pod: Object) -> None:
        pod["metadata"]["resourceVersion"] = str(next(self._versions))
        self.pods[pod["metadata"]["uid"]] = pod
        self._tell_watchers(kind, pod)

    def _tell_watchers(self, kind: EventKind, document: Object) -> None:
        if not self._watchers:
            return
        loop = asyncio.get_running_loop()
        for watcher in self._watchers:
            loop.call_soon(watcher, kind, document)


def _admit(pod: Object) -> None:
    """What the admission policies in manifests/ do to a pod of ours when it is created."""
    if pod["spec"].get("schedulerName") != vocabulary.DEFAULT_SCHEDULER_NAME:
        return
    pod["spec"].setdefault("schedulingGates", []).append({"name": vocabulary.GATE})
    annotations = pod["metadata"].setdefault("annotations", {})
    if not any(key in annotations for word in vocabulary.SHARE_WORDS for key in word.spellings):
        return
    containers = pod["spec"]["containers"]
    wanted = annotations.get(vocabulary.GPU_FRACTION_CONTAINER.key, containers[0]["name"])
    for container in containers:
        if container["name"] == wanted:
            env = container.get("env", [])
            others = [item for item in env if item["name"] != vocabulary.VISIBLE_DEVICES_ENV]
            container["env"] = [*others, copy.deepcopy(_ENV_FROM_ANNOTATION)]


def _timestamp() -> str:
    return datetime.fromtimestamp(int(time.time()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
