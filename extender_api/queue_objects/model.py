"""Our Queue object, the one source of what may stand in it: decoding and the CRD both follow from these models."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from extender_api.spec_model import LONGEST_NAME, Duration, Name, Part, rules
from queues.amounts import UNLIMITED
from queues.spec import DEFAULT_PRIORITY
from topology import quantity

MOST_NAMES: Final = 256
MOST_MODELS: Final = 16


def _quantity(value: object) -> object:
    """A quantity of at least 0, or -1. Kept as written."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("write a Kubernetes quantity, or -1 for unlimited")
    if is_unlimited(value):
        return value
    try:
        amount = quantity.parse(value)
    except quantity.QuantityError as err:
        raise ValueError(f"{err}; write a Kubernetes quantity, or -1 for unlimited") from None
    if amount < 0:
        raise ValueError(f"{value} is negative: write an amount of 0 or more, or -1 for unlimited")
    return value


def is_unlimited(value: str | int | float) -> bool:
    """Whether a quantity stands for no end."""
    return value in (UNLIMITED, str(UNLIMITED))


QUANTITY_RULE: Final = (
    "type(self) == int ? self >= -1 : "
    "(self == '-1' || (isQuantity(self) && !quantity(self).isLessThan(quantity('0'))))",
    "must be a Kubernetes quantity of 0 or more, or -1 for unlimited",
)
LIMIT_RULE: Final = (
    "!has(self.quota) || !has(self.limit) || string(self.limit) == '-1' || (string(self.quota) != '-1' && "
    "(!isQuantity(string(self.quota)) || !isQuantity(string(self.limit)) || "
    "quantity(string(self.quota)).compareTo(quantity(string(self.limit))) <= 0))",
    "limit must not be below quota; write -1 for no limit",
)
_NORMALISED: Final = "{0}.upperAscii().replace('_', '-').replace(' ', '-').replace('NVIDIA-', '') + '-'"
"""The most usual part of `gpu_model.normalise`; the rest is found when the object is read."""
MODELS_RULE: Final = (
    f"self.all(a, self.exists_one(b, ({_NORMALISED.format('b')}).startsWith({_NORMALISED.format('a')})))",
    "two keys match one product; keep one of them",
)
PARENT_RULE: Final = (
    "!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name",
    "a queue cannot be its own parent",
)
NAME_RULE: Final = (
    f"size(self.metadata.name) <= {LONGEST_NAME}",
    f"the name must have at most {LONGEST_NAME} characters: workloads name their queue in a label",
)

Quantity = Annotated[
    str | int | float,
    BeforeValidator(_quantity),
    Field(json_schema_extra={"x-kubernetes-int-or-string": True, "maxLength": 32, **rules(QUANTITY_RULE)}),
]


class ModelTerms(Part):
    """Quota and limit for the devices of one GPU model."""

    model_config = ConfigDict(json_schema_extra=rules(LIMIT_RULE))

    quota: Quantity | None = Field(
        None, description="Devices of the model that non-preemptible work may hold. Unset or -1: no bound."
    )
    limit: Quantity | None = Field(None, description="Most devices of the model. Unset or -1: no limit.")


class ResourceTerms(Part):
    """What a queue may have of one resource."""

    model_config = ConfigDict(json_schema_extra=rules(LIMIT_RULE))

    quota: Quantity | None = Field(
        None, description="The guaranteed share, which others may use while it is idle. Unset: 0. -1: everything."
    )
    limit: Quantity | None = Field(None, description="Most that the queue may hold. Unset or -1: no limit.")
    overQuotaWeight: Annotated[float, Field(ge=0, le=1_000_000)] | None = Field(
        None, description="Claim on what all quotas leave, beside the weights of siblings. Unset: 1. 0: none."
    )


class Resources(Part):
    """Terms by resource."""

    gpu: ResourceTerms | None = Field(None, description="Devices: 4 is four devices, 500m half a device.")
    cpu: ResourceTerms | None = Field(None, description="Cores: 4 is four, 500m half of one. Without terms: no bounds.")
    memory: ResourceTerms | None = Field(None, description="Bytes of memory, e.g. 64Gi. Without terms: no bounds.")
    gpuModels: Annotated[dict[Name, ModelTerms], Field(max_length=MOST_MODELS)] | None = Field(
        None,
        description="Devices by GPU model, e.g. H100: the node's product, whole or its leading parts between '-'.",
        json_schema_extra=rules(MODELS_RULE),
    )


class SelectorRequirement(Part):
    """One expression of a label selector."""

    key: Annotated[str, Field(min_length=1, max_length=317)]
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: Annotated[list[Annotated[str, Field(max_length=63)]], Field(max_length=64)] | None = None


class LabelSelector(Part):
    """A label selector; an empty one selects everything."""

    matchLabels: dict[str, str] | None = None
    matchExpressions: Annotated[list[SelectorRequirement], Field(max_length=16)] | None = None


class QueueSpecModel(Part):
    """What an administrator says."""

    parent: Name | None = Field(None, description="The queue above. Unset: at the top.")
    priority: int = Field(
        DEFAULT_PRIORITY,
        ge=-1_000_000,
        le=1_000_000,
        description="Order among siblings for what quotas leave, and for turns; higher first.",
    )
    resources: Resources | None = None
    preemptMinRuntime: Duration | None = Field(
        None, description="Running work of this queue is not preempted before it has run so long, e.g. 5m."
    )
    reclaimMinRuntime: Duration | None = Field(
        None, description="Running work of this queue is not reclaimed for others before it has run so long, e.g. 5m."
    )
    namespaces: Annotated[list[Name], Field(max_length=MOST_NAMES)] | None = Field(
        None,
        description="Namespaces that may use the queue, beside those selected. Neither: as the parent, or all.",
    )
    namespaceSelector: LabelSelector | None = Field(None, description="Namespaces that may use the queue, by labels.")
    topology: Name | None = Field(None, description="The Topology of workloads that name none.")
    pools: Annotated[list[Name], Field(max_length=64)] | None = Field(
        None, description="Names of the pools whose nodes workloads may use, in order of preference."
    )
    cordoned: bool = Field(False, description="Whether the queue takes no new work; what runs stays.")
    strictFifo: bool = Field(
        False, description="Whether work waits for what stands before it in the queue and could use the same nodes."
    )
    autoscaling: Literal["hidden", "visible"] = Field(
        "hidden", description="Whether work that only nodes are missing for is shown to cluster autoscalers."
    )
    starvingAfter: Duration | None = Field(
        None, description="Work that waits longer for room gets a reservation. Unset: as Tangram's settings say."
    )
