"""Facts about objects that own or describe workloads, of any kind: Jobs, JobSets, PodGroups and the like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from scheduler.pod import Owner


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """An object, reduced. `spec` and `status` are its JSON as it stands, without what describes containers."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner: Owner | None = None
    created_ms: int = 0
    spec: Mapping[str, Any] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """The API group, "" for the core group."""
        return self.api_version.rpartition("/")[0]


class Objects(Protocol):
    """The objects there are."""

    def by_uid(self, uid: str) -> ObjectFacts | None:
        """The object with the uid."""

    def named(self, group: str, kind: str, namespace: str, name: str) -> ObjectFacts | None:
        """The object with the name, of any version of the API group."""

    def reads(self, group: str, kind: str) -> bool:
        """Whether objects of the kind are read at all: one that is not found then does not exist (yet, any more)."""
