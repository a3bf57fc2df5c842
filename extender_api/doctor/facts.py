"""What the doctor collected about an installation, before anything is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from queues.spec import QueueSpec
from topology.inventory import NodeInventory

HTTP_OK: Final = 200
HTTP_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class Seen:
    """One object as the API server answered: `status` is HTTP's, `body` the object or the API server's Status."""

    status: int = HTTP_NOT_FOUND
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def exists(self) -> bool:
        """It is there and may be read."""
        return self.status == HTTP_OK

    @property
    def missing(self) -> bool:
        """It is certainly not there."""
        return self.status == HTTP_NOT_FOUND

    @property
    def trouble(self) -> str:
        """Why it could not be read."""
        return f"{self.body.get('message') or 'no message'} (HTTP {self.status})"


class Right(NamedTuple):
    """One thing an account must be allowed to do; `resource` may be `pods/binding`. Empty texts mean any."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        named = f" {self.name}" if self.name else ""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {resource}{named}{where}"


@dataclass(frozen=True, slots=True)
class Rights:
    """What an account was asked about: `denied` of `asked` in all. `account` is a name for people."""

    account: str
    asked: int = 0
    denied: tuple[Right, ...] = ()


@dataclass(frozen=True, slots=True)
class Installation:
    """One Deployment of kube-scheduler and Tangram, with what its ConfigMap holds.

    `images` is by container, `files` has what its ConfigMaps hold, by name.
    """

    namespace: str
    name: str
    replicas: int = 0
    ready: int = 0
    images: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    pods: tuple[str, ...] = ()
    lease: Seen = Seen()
    rights: Rights = Rights("")

    @property
    def key(self) -> str:
        """`namespace/name`"""
        return f"{self.namespace}/{self.name}"

    @property
    def scheduler_text(self) -> str | None:
        """The KubeSchedulerConfiguration, None where it could not be read."""
        return self.files.get("scheduler.yaml")

    @property
    def tangram_text(self) -> str | None:
        """The settings of Tangram, None where they could not be read."""
        return self.files.get("tangram.yaml")


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything the checks read. `server_ms` None: the API server did not tell its time."""

    now_ms: int
    server_ms: int | None
    version: Seen
    policies: Mapping[tuple[str, str], Seen]
    """By (kind, name), as in the shipped files."""
    installations: tuple[Installation, ...] = ()
    own_rights: Rights | None = None
    """Those of the credentials in use, asked about where no installation is found."""
    nodes: tuple[NodeInventory, ...] = ()
    unreadable_nodes: tuple[str, ...] = ()
    allocations: int = 0
    """Bound pods with the annotation of Tangram."""
    strange_allocations: tuple[tuple[str, str], ...] = ()
    """Of those, (pod, problem) where the annotation cannot be read."""
    queue_definition: Seen = Seen()
    """The definition of our Queue."""
    queues: tuple[QueueSpec, ...] = ()
    """Queue objects of both kinds."""
    unreadable_queues: tuple[str, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels by namespace."""
    trouble: tuple[str, ...] = ()
    """What could not be looked at, and why."""
