"""Which gang a pod belongs to, as far as can be told from the pod and the objects that own or describe it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.gang_spec import ROOT, GangKey, GangSpec


@dataclass(frozen=True, slots=True)
class Membership:
    """What recognition says of one pod.

    `gang` None: it goes alone. With a gang, `spec` is None while what defines it is not there: `missing` then says
    what is waited for, for people. `leaf` is the group it stands in, `index` its place there (rank among the pods of
    the leaf) where its creator numbers them. `problem` is why it may not be placed at all (it names a subgroup that
    does not exist, say). `warnings` are code → text, about what is contradictory and passed over.
    `queue`, `priority_class` and `preemptible` are what the group or the top owner say; None: as the pod says.
    """

    gang: GangKey | None = None
    leaf: str = ROOT
    index: int | None = None
    spec: GangSpec | None = None
    missing: str = ""
    problem: str = ""
    queue: str | None = None
    priority_class: str | None = None
    preemptible: bool | None = None
    warnings: Mapping[str, str] = field(default_factory=dict)


ALONE = Membership()
