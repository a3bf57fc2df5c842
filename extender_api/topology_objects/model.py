"""Our Topology object, the one source of what may stand in it: decoding and the CRD both follow from this model."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, model_validator

from extender_api.spec_model import Part, rules
from topology.domains import HOSTNAME, MAX_LEVELS, NVLINK_CLUSTER, PRESETS

_PART: Final = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DNS: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
KEY_PATTERN: Final = rf"^(({_DNS}(\.{_DNS})*/)?{_PART}|{NVLINK_CLUSTER.replace('.', '[.]')})$"
"""A label key, or the one level that is a part of a label."""

ONE_SOURCE_RULE: Final = (
    "has(self.levels) != has(self.preset)",
    "write either levels or the name of a preset",
)
FIXED_RULE: Final = (
    "self == oldSelf",
    "a Topology cannot be changed: make another, and let workloads name that one",
)
UNIQUE_RULE: Final = (
    "self.all(a, self.exists_one(b, b.nodeLabel == a.nodeLabel))",
    "a level stands twice",
)
ALIAS_RULE: Final = (
    "self.all(a, !has(a.alias) || (self.filter(b, has(b.alias) && b.alias == a.alias).size() == 1 && "
    "!self.exists(b, b.nodeLabel == a.alias)))",
    "an alias stands twice, or is the label of a level",
)
HOST_RULE: Final = (
    f"self.all(a, a.nodeLabel != '{HOSTNAME}' || a.nodeLabel == self[self.size() - 1].nodeLabel)",
    f"{HOSTNAME} can only be the last level: nothing is narrower than a host",
)


class Level(Part):
    """A level of a network: nodes with the same value of the label, and of those before it, are in one domain."""

    nodeLabel: Annotated[str, Field(min_length=1, max_length=317, pattern=KEY_PATTERN)] = Field(
        description="The label of nodes that has the name of the domain."
    )
    alias: Annotated[str, Field(min_length=1, max_length=63, pattern=rf"^{_PART}$")] | None = Field(
        None, description="A short name of the level, e.g. rack, which workloads may write for the label."
    )


class TopologySpecModel(Part):
    """What an administrator says."""

    model_config = ConfigDict(json_schema_extra=rules(ONE_SOURCE_RULE, FIXED_RULE))

    levels: Annotated[list[Level], Field(min_length=1, max_length=MAX_LEVELS)] | None = Field(
        None,
        description="The levels, from broad to narrow.",
        json_schema_extra={"x-kubernetes-list-type": "atomic", **rules(UNIQUE_RULE, ALIAS_RULE, HOST_RULE)},
    )
    preset: str | None = Field(
        None,
        description="The name of a known list of levels instead, e.g. that of a cloud provider.",
        json_schema_extra={"enum": [*sorted(PRESETS)]},
    )

    @model_validator(mode="after")
    def _one_source(self) -> Any:
        if (self.levels is None) == (self.preset is None):
            raise ValueError(ONE_SOURCE_RULE[1])
        return self
