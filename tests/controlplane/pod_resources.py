"""What a pod takes from its node, by Kubernetes' arithmetic; written apart from Tangram's own on purpose."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil
from typing import Any, Final

from tests.controlplane.resources import Object

_FORM: Final = re.compile(r"([+-]?[0-9.]+)(?:[eE]([+-]?\d+)|([KMGTPE]i|[numkMGTPE]))?")
_POWERS: Final = {"n": -3, "u": -2, "m": -1, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_FACTORS: Final = {
    **{suffix: Fraction(1000) ** power for suffix, power in _POWERS.items()},
    **{f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}


def amount(resource: str, quantity: str | int) -> int:
    """A quantity as an integer, rounded up: millicores of cpu, the base unit of anything else."""
    found = _FORM.fullmatch(str(quantity))
    if found is None:
        raise ValueError(f"{quantity!r} is no quantity")
    number, exponent, suffix = found.groups()
    value = Fraction(number) * Fraction(10) ** int(exponent or 0) * _FACTORS.get(suffix, Fraction(1))
    return ceil(value * 1000 if resource == "cpu" else value)


def amounts(quantities: Mapping[str, str | int]) -> Counter[str]:
    return Counter({name: amount(name, quantity) for name, quantity in quantities.items()})


def requests_of(pod: Object) -> Counter[str]:
    """What the pod's node must have for it, with 1 of `pods`."""
    spec = pod["spec"]
    running: Counter[str] = Counter()
    for container in spec["containers"]:
        running += _requests(container)
    sidecars: Counter[str] = Counter()
    starting: Counter[str] = Counter()
    for container in spec.get("initContainers", ()):
        own = _requests(container)
        starting |= sidecars + own
        if container.get("restartPolicy") == "Always":
            sidecars += own
    total = (running + sidecars) | starting
    # what the pod asks for as a whole stands in for the sum of its containers
    total = Counter({**total, **amounts(spec.get("resources", {}).get("requests", {}))})
    total += amounts(spec.get("overhead", {}))
    total["pods"] = 1
    return total


def _requests(container: Mapping[str, Any]) -> Counter[str]:
    return amounts(container.get("resources", {}).get("requests", {}))


def total(parts: Iterable[Counter[str]]) -> Counter[str]:
    """The sum of several pods' requests."""
    result: Counter[str] = Counter()
    for part in parts:
        result.update(part)
    return result
