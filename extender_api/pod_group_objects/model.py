"""Our PodGroup object, the one source of what may stand in it: it says what KAI's says, in the same words."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from extender_api.spec_model import LONGEST_NAME, Name, Part, rules
from topology import duration

MOST_SUBGROUPS: Final = 256
MOST_PODS: Final = 100_000
GRACE_PATTERN: Final = duration.PATTERN.replace("^", "^-?", 1)

ONE_MINIMUM_RULE: Final = (
    "!has(self.minMember) || !has(self.minSubGroup)",
    "write minMember or minSubGroup, not both: pods are counted in groups without subgroups, subgroups elsewhere",
)
LEVEL_RULE: Final = (
    "has(self.requiredTopologyLevel) || has(self.preferredTopologyLevel)",
    "write requiredTopologyLevel, preferredTopologyLevel or both",
)
UNIQUE_RULE: Final = (
    "self.all(a, self.exists_one(b, b.name == a.name))",
    "two subgroups have the same name",
)
PARENT_RULE: Final = (
    "self.all(a, !has(a.parent) || self.exists(b, b.name == a.parent))",
    "parent must be the name of another subgroup",
)
OWN_PARENT_RULE: Final = (
    "self.all(a, !has(a.parent) || a.parent != a.name)",
    "a subgroup cannot be its own parent",
)
LEAF_RULE: Final = (
    "self.all(a, has(a.minMember) || self.exists(b, has(b.parent) && b.parent == a.name))",
    "a subgroup that is no other's parent holds pods: it needs minMember, 0 where none are needed",
)
ROOT_RULE: Final = (
    "!has(self.minSubGroup) || (has(self.subGroups) && self.subGroups.size() > 0)",
    "minSubGroup needs subGroups",
)

Minimum = Annotated[int, Field(ge=0, le=MOST_PODS, json_schema_extra={"format": "int32"})]
LabelValue = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
LevelName = Annotated[str, Field(min_length=1, max_length=317)]


class TopologyConstraint(Part):
    """Who has to be near whom. Levels are named by their label or alias."""

    model_config = ConfigDict(json_schema_extra=rules(LEVEL_RULE))

    topology: Name | None = Field(None, description="The Topology that is meant. Unset: that of the queue.")
    requiredTopologyLevel: LevelName | None = Field(
        None, description="All pods are in one domain of this level, or wait."
    )
    preferredTopologyLevel: LevelName | None = Field(
        None, description="All pods are in one domain of this level where possible, else of the next one above."
    )


class SubGroup(Part):
    """A part of the group. Its pods name it in the label kai.scheduler/subgroup-name."""

    model_config = ConfigDict(json_schema_extra=rules(ONE_MINIMUM_RULE))

    name: LabelValue
    parent: LabelValue | None = Field(None, description="The subgroup that this one is part of. Unset: the group.")
    minMember: Minimum | None = Field(None, description="Pods that it needs before any of them starts.")
    minSubGroup: Minimum | None = Field(
        None, description="Subgroups directly below that it needs before any of them starts. Unset: all."
    )
    topologyConstraint: TopologyConstraint | None = Field(None, description="Nearness among the pods of the subgroup.")


class PodGroupSpecModel(Part):
    """What the author of a job says."""

    model_config = ConfigDict(json_schema_extra=rules(ONE_MINIMUM_RULE, ROOT_RULE))

    minMember: Minimum | None = Field(
        None, description="Pods that the group needs before any of them starts. 0: each may start alone."
    )
    minSubGroup: Minimum | None = Field(
        None, description="Subgroups directly below that the group needs before any of them starts. Unset: all."
    )
    subGroups: Annotated[list[SubGroup], Field(max_length=MOST_SUBGROUPS)] | None = Field(
        None,
        description="The parts of the group, as a tree.",
        json_schema_extra={
            "x-kubernetes-list-type": "atomic",
            **rules(UNIQUE_RULE, OWN_PARENT_RULE, PARENT_RULE, LEAF_RULE),
        },
    )
    topologyConstraint: TopologyConstraint | None = Field(None, description="Nearness among all pods of the group.")
    queue: LabelValue | None = Field(None, description="The queue of the group. Unset: that of its pods.")
    priorityClassName: Name | None = Field(None, description="The PriorityClass of the group. Unset: that of its pods.")
    preemptibility: Literal["preemptible", "non-preemptible"] | None = Field(
        None, description="Whether others may take its place. Unset: as its priority says."
    )
    stalenessGracePeriod: Annotated[str, Field(max_length=32, pattern=GRACE_PATTERN)] | None = Field(
        None,
        description="How long it may run with fewer pods than it needs, e.g. 5m; below 0 (-1s): for ever.",
    )
