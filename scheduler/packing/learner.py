"""The demand mix, learnt from the pods that are there and from those that came lately."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from scheduler.allocation import FULL_MILLI
from scheduler.constraints import Constraints
from scheduler.packing.hardware import Hardware
from scheduler.packing.mix import Mix, PodClass
from scheduler.request import Demand, Request
from scheduler.room import Form

WEIGHT: Final = 1024
"""What a pod counts, so that a part of one is an integer."""
FADES_EVERY: Final = 250
"""After so many arrivals, those before count nine tenths of what they did."""
MOST_CLASSES: Final = 512
PRIOR_PODS: Final = 20
"""What is assumed beforehand counts as so many pods."""
PRIOR: Final = ((500, 1, 6), (FULL_MILLI, 1, 9), (FULL_MILLI, 2, 2), (FULL_MILLI, 4, 1), (FULL_MILLI, 8, 2))
"""Milli per device, devices, and how many of PRIOR_PODS ask for that."""


class Learner:
    """Counts pods of ours by what they ask for: those there are, and arrivals that fade."""

    def __init__(self) -> None:
        self.arrivals = 0
        self.departures = 0
        self._forms: dict[str, Form] = {}
        self._there: dict[Form, int] = {}
        self._recent: dict[Form, int] = {}
        self._left = 0
        """Pods that ran and left, in WEIGHT; fades as arrivals do."""

    @property
    def pods(self) -> int:
        """How many there are."""
        return len(self._forms)

    def came(self, uid: str, form: Form) -> None:
        """A pod is there that was not before, or asks for something else now."""
        old = self._forms.get(uid)
        if old == form:
            return
        if old is not None:
            self._take(old)
        self._forms[uid] = form
        self._there[form] = self._there.get(form, 0) + 1
        self._recent[form] = self._recent.get(form, 0) + WEIGHT
        self.arrivals += 1
        if self.arrivals % FADES_EVERY == 0:
            faded = {form: weight * 9 // 10 for form, weight in self._recent.items()}
            self._recent = {form: weight for form, weight in faded.items() if weight or form in self._there}
            self._left = self._left * 9 // 10

    def gone(self, uid: str, *, ran: bool = True) -> None:
        """A pod has ended or was deleted; `ran`: it had a place."""
        form = self._forms.pop(uid, None)
        if form is not None:
            self.departures += 1
            self._left += WEIGHT if ran else 0
            self._take(form)

    def is_steady(self, hardware: Hardware) -> bool:
        """See `Mix.steady`. Half as many departures as arrivals, lately, count as about as many."""
        asked = sum(count * gpu_milli_of(form.request) for form, count in self._there.items() if form.request)
        devices = sum(model.devices for model in hardware.models)
        return 2 * self._left >= sum(self._recent.values()) and asked <= FULL_MILLI * devices

    def mix(self, hardware: Hardware, models_of: Callable[[Constraints], frozenset[str] | None]) -> Mix:
        """The mix as of now, with a prior that matters less the more is known.

        `models_of` says to which models constraints let a pod go, None for all. Of very many classes those that count
        least are left out.
        """
        weights = {form: self._there.get(form, 0) * WEIGHT + recent for form, recent in self._recent.items()}
        kept = set(sorted(weights, key=lambda form: -weights[form])[:MOST_CLASSES])
        forms = [form for form in weights if form in kept and form.request is not None]
        prior = list(_prior(hardware))
        known = [pod_class(form.request, models_of(form.constraints)) for form in forms if form.request is not None]
        return Mix(
            (*known, *(assumed for assumed, _ in prior)),
            (*(weights[form] for form in forms), *(pods * WEIGHT for _, pods in prior)),
            (*(self._there.get(form, 0) for form in forms), *(0 for _ in prior)),
            self.is_steady(hardware),
        )

    def _take(self, form: Form) -> None:
        self._there[form] -= 1
        if not self._there[form]:
            del self._there[form]


def gpu_milli_of(request: Request) -> int:
    """What a request asks for of devices, whatever node it gets; shares by memory count as nothing."""
    if request.demand is Demand.WHOLE:
        return FULL_MILLI * request.device_count
    return request.device_count * request.share_milli if request.demand is Demand.SHARE else 0


def pod_class(request: Request, models: frozenset[str] | None) -> PodClass:
    """What a request counts as in the mix. Parts of devices (MIG) are no devices there."""
    devices, milli = request.device_count, request.share_milli
    if request.demand is Demand.WHOLE:
        milli = FULL_MILLI
    elif request.demand is Demand.NONE:
        devices, milli, models = 0, 0, None
    return PodClass(request.cpu_milli, request.memory_bytes, devices, milli, request.share_memory_mib, models)


def _prior(hardware: Hardware) -> Iterator[tuple[PodClass, int]]:
    """Pods that ask for half the CPU that goes with their devices, on nodes as they are on average."""
    devices = sum(model.devices for model in hardware.models)
    cpu_milli = sum(model.cpu_milli for model in hardware.models)
    largest = max((model.most_devices for model in hardware.models), default=0)
    for milli, count, pods in PRIOR:
        if count <= largest:
            yield PodClass(cpu_milli * milli * count // (2 * FULL_MILLI * devices), 0, count, milli), pods
