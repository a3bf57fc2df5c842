"""What is written into the status of our Queue objects, and how its values are spelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from queues.amounts import UNLIMITED, Amounts

Json = dict[str, Any]
_BINARY: Final = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))

Generation = Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})]
Written = Annotated[str | int, Field(json_schema_extra={"x-kubernetes-int-or-string": True})]


class Part(BaseModel):
    """Anything in a status."""

    model_config = ConfigDict(extra="forbid")


class AmountsStatus(Part):
    """Amounts as Kubernetes quantities; -1 is unlimited."""

    gpu: Written | None = Field(None, description="Devices.")
    cpu: Written | None = Field(None, description="Cores.")
    memory: Written | None = Field(None, description="Bytes.")
    gpuModels: dict[str, Written] | None = Field(None, description="Devices by GPU model, for the models in the spec.")


class Condition(Part):
    """A condition as Kubernetes has it."""

    type: Annotated[str, Field(max_length=316)]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, Field(max_length=1024)]
    message: Annotated[str, Field(max_length=32768)]
    lastTransitionTime: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    observedGeneration: Generation | None = None


class QueueStatus(Part):
    """What Tangram knows of the queue; written at most every few seconds."""

    observedGeneration: Generation | None = Field(None, description="The generation of the spec that this is about.")
    allocated: AmountsStatus | None = Field(None, description="What work of the queue, and of those below, holds.")
    allocatedNonPreemptible: AmountsStatus | None = Field(None, description="The part of it that cannot give way.")
    requested: AmountsStatus | None = Field(None, description="What is held, and what waiting work asks for.")
    fairShare: AmountsStatus | None = Field(None, description="What the queue would have if everybody took theirs.")
    waiting: int | None = Field(None, ge=0, description="Workloads that wait in the queue and below.")
    children: list[str] | None = Field(
        None, description="The queues below.", json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    conditions: list[Condition] | None = Field(
        None,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )


def amounts(held: Amounts, models: Mapping[str, int] | None = None) -> Json:
    """Amounts, and devices in thousandths by model, as `AmountsStatus` has them."""
    document: Json = {
        "gpu": milli(held.gpu_milli),
        "cpu": milli(held.cpu_milli),
        "memory": memory(held.memory_bytes),
    }
    if models:
        document["gpuModels"] = {model: milli(gpu_milli) for model, gpu_milli in models.items()}
    return document


def milli(thousandths: int) -> str:
    """Thousandths of devices or cores as a quantity: `4`, `2500m`."""
    if thousandths == UNLIMITED:
        return "-1"
    return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)


def memory(amount_bytes: int) -> str:
    """Bytes as a quantity, with the largest suffix that loses nothing: `64Gi`, `1000`."""
    for suffix, unit in _BINARY:
        if amount_bytes > 0 and amount_bytes % unit == 0:
            return f"{amount_bytes // unit}{suffix}"
    return str(amount_bytes)


def condition(type_: str, holds: bool, reason: str, message: str = "") -> Json:
    """A condition without its times, which the writer adds. `reason` is one word in capitals and small letters."""
    return {"type": type_, "status": "True" if holds else "False", "reason": reason, "message": message}
