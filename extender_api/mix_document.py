"""The demand mix as JSON: what the placement policy goes by, told by the ops API and taken by a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scheduler.allocation import FULL_MILLI
from scheduler.packing.mix import Mix, PodClass
from scheduler.packing.refresh import Refresh

_INTEGERS: Final = {
    "cpuMilli": "cpu_milli",
    "memoryBytes": "memory_bytes",
    "devices": "devices",
    "milli": "milli",
    "shareMib": "share_mib",
}
_MOST: Final = 1 << 50


class MixError(ValueError):
    """A mix that cannot be understood; the text names the place and what is allowed."""


def packing_document(refresh: Refresh) -> dict[str, Any]:
    """What the tables in use were made of: their `epoch` (0: none yet), the `mix` and the `hardware`."""
    current = refresh.current
    if current is None:
        return {"epoch": refresh.epoch, "mix": [], "hardware": []}
    hardware = [
        {
            "product": model.key,
            "cardMib": model.card_mib,
            "takesShares": model.takes_shares,
            "nodes": model.nodes,
            "devices": model.devices,
            "cpuMilli": model.cpu_milli,
        }
        for model in current.hardware.models
        if model.nodes
    ]
    return {"epoch": refresh.epoch, "mix": mix_document(current.mix), "hardware": hardware}


def mix_document(mix: Mix) -> list[dict[str, Any]]:
    """The classes of a mix in their order; `pods` only where it is known."""
    found = []
    for number, one in enumerate(mix.classes):
        entry: dict[str, Any] = {name: getattr(one, field) for name, field in _INTEGERS.items()}
        entry["models"] = None if one.models is None else sorted(one.models)
        entry["demand"] = mix.demand[number]
        if mix.pods is not None:
            entry["pods"] = mix.pods[number]
        found.append(entry)
    return found


def read_mix(given: object) -> Mix:
    """The mix of such a list. Raises MixError."""
    if not isinstance(given, list):
        raise MixError("options.mix must be a list of classes, as /api/v1/packing has it")
    classes, demand, pods = [], [], []
    for number, entry in enumerate(given):
        where = f"options.mix[{number}]"
        if not isinstance(entry, Mapping):
            raise MixError(f"{where} must be an object")
        fields = {field: _integer(entry.get(name, 0), f"{where}.{name}") for name, field in _INTEGERS.items()}
        if fields["milli"] > FULL_MILLI:
            raise MixError(f"{where}.milli is a part of a device, at most {FULL_MILLI}; it is {fields['milli']}")
        models = entry.get("models")
        if models is not None and not (isinstance(models, list) and all(isinstance(one, str) for one in models)):
            raise MixError(f"{where}.models must be a list of products, or null for all")
        one = PodClass(fields["cpu_milli"], fields["memory_bytes"], fields["devices"], fields["milli"])
        models = None if models is None else frozenset(models)
        classes.append(one._replace(share_mib=fields["share_mib"], models=models))
        demand.append(_integer(entry.get("demand", 1), f"{where}.demand"))
        if "pods" in entry:
            pods.append(_integer(entry["pods"], f"{where}.pods"))
    if pods and len(pods) != len(classes):
        raise MixError('options.mix: either every class has "pods" or none')
    return Mix(tuple(classes), tuple(demand), tuple(pods) if pods else None)


def _integer(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        raise MixError(f"{where} must be a whole number from 0 to {_MOST}, it is {value!r}")
    return value
