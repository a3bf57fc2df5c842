"""Our Queue object, the one source of what may stand in it: decoding and the CRD both follow from these models."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from queues.spec import DEFAULT_PRIORITY
from topology import duration, quantity, vocabulary

API_VERSION: Final = f"{vocabulary.API_GROUP}/v1alpha1"
MOST_NAMES: Final = 256
Json = dict[str, Any]


def _quantity(value: object) -> object:
    """A quantity of at least 0, or -1. Kept as written."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("write a Kubernetes quantity, or -1 for unlimited")
    try:
        amount = quantity.parse(value)
    except quantity.QuantityError as err:
        raise ValueError(f"{err}; write a Kubernetes quantity, or -1 for unlimited") from None
    if amount < 0 and amount != -1:
        raise ValueError(f"{value} is negative: write an amount of 0 or more, or -1 for unlimited")
    return value


def _duration(value: object) -> object:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"write {duration.FORM}")
    duration.parse_ms(value)
    return value


def _schema(**schema: Any) -> dict[str, Any]:
    return schema


QUANTITY_RULE: Final[Json] = {
    "rule": "type(self) == int ? self >= -1 : (self == '-1' || (isQuantity(self) && quantity(self).sign() >= 0))",
    "message": "must be a Kubernetes quantity of 0 or more, or -1 for unlimited",
}
Quantity = Annotated[
    str | int | float,
    BeforeValidator(_quantity),
    Field(
        json_schema_extra=_schema(
            **{"x-kubernetes-int-or-string": True, "x-kubernetes-validations": [QUANTITY_RULE], "maxLength": 32}
        )
    ),
]
Duration = Annotated[
    str, BeforeValidator(_duration), Field(json_schema_extra=_schema(pattern=duration.PATTERN, maxLength=32))
]
Name = Annotated[str, Field(min_length=1, max_length=253)]

LIMIT_RULE: Final[Json] = {
    "rule": "!has(self.quota) || !has(self.limit) || "
    "string(self.limit) == '-1' || (string(self.quota) != '-1' && "
    "quantity(string(self.quota)).compareTo(quantity(string(self.limit))) <= 0)",
    "message": "limit must not be below quota; write -1 for no limit",
}


class Part(BaseModel):
    """Anything in a Queue: unknown keys are mistakes, most often misspelt ones."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class ModelTerms(Part):
    """Quota and limit for the devices of one GPU model."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-validations": [LIMIT_RULE]})

    quota: Quantity | None = Field(
        None, description="Devices of the model that non-preemptible work may hold. Unset or -1: no bound."
    )
    limit: Quantity | None = Field(None, description="Most devices of the model. Unset or -1: no limit.")


class ResourceTerms(Part):
    """What a queue may have of one resource."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-validations": [LIMIT_RULE]})

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
    cpu: ResourceTerms | None = Field(None, description="Cores.")
    memory: ResourceTerms | None = Field(None, description="Bytes of memory.")
    gpuModels: Annotated[dict[Name, ModelTerms], Field(max_length=64)] | None = Field(
        None, description="Devices by GPU model, e.g. H100: the product of the node, whole or its leading parts."
    )


class SelectorRequirement(Part):
    """One expression of a label selector."""

    key: Annotated[str, Field(max_length=317)]
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
        None, description="Running work of this queue is not preempted before it has run so long."
    )
    reclaimMinRuntime: Duration | None = Field(
        None, description="Running work of this queue is not reclaimed for others before it has run so long."
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


PARENT_RULE: Final[Json] = {
    "rule": "!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name",
    "message": "a queue cannot be its own parent",
}
