"""KAI's Queue (scheduling.run.ai/v2), read as it is: its numbers, and its meaning of what is not said."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from extender_api.spec_model import Duration
from queues.amounts import UNLIMITED, Amounts
from queues.spec import DEFAULT_PRIORITY, ONE_WEIGHT, QueueSpec, Source, Terms
from topology import duration, quantity, vocabulary

API_VERSION: Final = f"{vocabulary.KAI_QUEUE_GROUP}/v2"
_UNITS: Final = Amounts(1, 1_000_000, 1000)
"""CPU is in millicores, memory in megabytes, GPUs in devices."""
_MOST_WEIGHT: Final = 1_000_000


def _number(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("write a number, -1 for unlimited")
    try:
        number = Decimal(str(value))
    except ArithmeticError:
        raise ValueError(f"{value!r} is not a number") from None
    if not number.is_finite():
        raise ValueError(f"{value!r} is not a number that an amount can be")
    if number < 0 and number != UNLIMITED:
        raise ValueError(f"{value} is negative: write 0 or more, or -1 for unlimited")
    return number


Number = Annotated[Decimal, BeforeValidator(_number)]


class _Model(BaseModel):
    # KAI's objects have more keys than are read here, and later versions may have others
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)


class KaiTerms(_Model):
    """One resource. What is not said is 0, the limit too."""

    quota: Number = Decimal(0)
    limit: Number = Decimal(0)
    overQuotaWeight: Number = Decimal(0)

    def terms(self, unit: int) -> Terms:
        """The same in integers, to the nearest."""
        return Terms(_amount(self.quota, unit), _amount(self.limit, unit), _weight_milli(self.overQuotaWeight))


class KaiResources(_Model):
    """Terms by resource."""

    gpu: KaiTerms = KaiTerms()
    cpu: KaiTerms = KaiTerms()
    memory: KaiTerms = KaiTerms()


class KaiSpec(_Model):
    """What is read of a spec."""

    parentQueue: str | None = None
    priority: int | None = Field(None, ge=-(1 << 31), le=(1 << 31) - 1)
    resources: KaiResources | None = None
    preemptMinRuntime: Duration | None = None
    reclaimMinRuntime: Duration | None = None


def kai_spec(spec: KaiSpec, **meta: Any) -> QueueSpec:
    """The queue that a spec describes; `meta` is name, uid and created_ms."""
    resources = spec.resources or KaiResources()
    return QueueSpec(
        parent=spec.parentQueue or None,
        priority=DEFAULT_PRIORITY if spec.priority is None else spec.priority,
        cpu=resources.cpu.terms(_UNITS.cpu_milli),
        memory=resources.memory.terms(_UNITS.memory_bytes),
        gpu=resources.gpu.terms(_UNITS.gpu_milli),
        preempt_min_runtime_ms=_duration_ms(spec.preemptMinRuntime),
        reclaim_min_runtime_ms=_duration_ms(spec.reclaimMinRuntime),
        source=Source.KAI,
        **meta,
    )


def _amount(number: Decimal, unit: int) -> int:
    return UNLIMITED if number == UNLIMITED else round(min(number * unit, Decimal(quantity.MAX)))


def _weight_milli(weight: Decimal) -> int:
    """At least one thousandth for every weight above 0; below 0 it is none."""
    return max(round(min(weight, Decimal(_MOST_WEIGHT)) * ONE_WEIGHT), 1) if weight > 0 else 0


def _duration_ms(text: str | None) -> int | None:
    return None if text is None else duration.parse_ms(text)
