"""Priority classes of a plan document: pods from files name a class where pods from a cluster have its number, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from extender_api.cluster.fields import DecodeError
from topology import vocabulary

LEAST: Final = -(1 << 31)
MOST: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A class of priorities; `is_default` is for pods that name none."""

    name: str
    value: int
    is_default: bool = False
    preemption_policy: str | None = None


PRESETS: Final = (
    PriorityClass("system-node-critical", 2_000_001_000),
    PriorityClass("system-cluster-critical", 2_000_000_000),
    *(PriorityClass(name, value) for name, value in vocabulary.PRIORITIES.items()),
)
"""Classes that mean something without being among the objects: those of every cluster, ours, and KAI's."""


def read_class(content: Mapping[str, Any]) -> PriorityClass:
    """A PriorityClass object. Raises DecodeError."""
    metadata = content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(name, str) or not name:
        raise DecodeError("PriorityClass", ("metadata", "name"), "Field required")
    where = f"PriorityClass {name}"
    value = content.get("value", 0)
    if not isinstance(value, int) or isinstance(value, bool) or not LEAST <= value <= MOST:
        raise DecodeError(where, ("value",), f"{value!r} is not a whole number of 32 bits")
    policy = content.get("preemptionPolicy")
    if policy not in (None, "Never", "PreemptLowerPriority"):
        raise DecodeError(where, ("preemptionPolicy",), f"{policy!r} is neither Never nor PreemptLowerPriority")
    return PriorityClass(name, value, content.get("globalDefault") is True, policy)


class PriorityClasses:
    """The classes in force: those given win over presets of the same name."""

    def __init__(self, given: Iterable[PriorityClass]) -> None:
        given = tuple(given)
        self._by_name: Final = {found.name: found for found in (*PRESETS, *given)}
        # of several defaults the API server takes the lowest, too
        defaults = sorted((found.value, found.name) for found in given if found.is_default)
        self._default: Final = self._by_name[defaults[0][1]] if defaults else None

    def resolve(self, pod: Mapping[str, Any], problems: list[str]) -> Mapping[str, Any]:
        """The pod with what the API server's admission would have filled in. Whatever it says itself stays."""
        spec = pod.get("spec")
        if not isinstance(spec, Mapping) or spec.get("priority") is not None:
            return pod
        name = spec.get("priorityClassName")
        found = self._by_name.get(name) if isinstance(name, str) and name else self._default
        if found is None:
            if name:
                problems.append(f"{_called(pod)}: priorityClassName {name} is not among the objects")
            return pod
        filled = {"priority": found.value, "preemptionPolicy": found.preemption_policy}
        return {**pod, "spec": {**filled, **{key: value for key, value in spec.items() if value is not None}}}


def _called(pod: Mapping[str, Any]) -> str:
    metadata = pod.get("metadata")
    if not isinstance(metadata, Mapping):
        return "Pod"
    return f"Pod {metadata.get('namespace') or 'default'}/{metadata.get('name')}"
