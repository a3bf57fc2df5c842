"""The options of a plan document."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from extender_api.cluster.fields import FieldError, epoch_ms
from extender_api.mix_document import MixError, read_mix
from scheduler.packing.mix import Mix
from scheduler.packing.named import policy_named
from scheduler.policy import PlacementPolicy, Policy, PolicyError

ALLOCATE: Final = "allocate"
STALE: Final = "stale"
ACTIONS: Final = (ALLOCATE, "consolidate", "reclaim", "preempt", STALE)
PLACES: Final = ("cpu", "gpu", "device")
MEMBERS: Final = ("actions", "mix", "now", "placement")


@dataclass(slots=True)
class PlanOptions:
    """What is asked for. `problems` says what cannot be understood, `notes` what is understood and not done."""

    now_ms: int = 0
    policy: Policy = field(default_factory=PlacementPolicy)
    mix: Mix | None = None
    allocate: bool = True
    stale: bool = True
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_options(given: object) -> PlanOptions:
    """Reads the member `options` of a plan document; null is the same as absent, throughout."""
    options = PlanOptions()
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        options.problems.append('"options" must be an object')
        return options
    for name in sorted(str(key) for key in given):
        if name not in MEMBERS:
            options.problems.append(f'options has no member "{name}": {", ".join(MEMBERS)} are read')
    _read_actions(given.get("actions"), options)
    options.now_ms = _now_ms(given.get("now"), options.problems)
    options.policy = _policy(given.get("placement"), options.problems)
    options.mix = _mix(given.get("mix"), options.problems)
    return options


def _read_actions(given: object, options: PlanOptions) -> None:
    if given is None:
        return
    if not isinstance(given, list):
        options.problems.append("options.actions must be a list")
        return
    for action in given:
        if action not in ACTIONS:
            options.problems.append(f'options.actions: "{action}" is unknown; {", ".join(ACTIONS)} are known')
        elif action not in (ALLOCATE, STALE):
            options.notes.append(f'action "{action}" does nothing yet: this version allocates and ends stale gangs')
    options.allocate, options.stale = ALLOCATE in given, STALE in given
    if not options.allocate:
        options.notes.append(f'nothing is placed: options.actions does not name "{ALLOCATE}"')


def _now_ms(given: object, problems: list[str]) -> int:
    try:
        now_ms = epoch_ms(given, "options", "now")
    except FieldError as err:
        problems.append(str(err))
        return 0
    return time.time_ns() // 1_000_000 if now_ms is None else now_ms


def _mix(given: object, problems: list[str]) -> Mix | None:
    """The demand that a policy which learns goes by; absent: what the given pods ask for."""
    try:
        return None if given is None else read_mix(given)
    except MixError as err:
        problems.append(str(err))
        return None


def _policy(given: object, problems: list[str]) -> Policy:
    """The placement asked for, by the name of a policy or part by part; what is absent packs, whatever live does."""
    if given is None:
        return PlacementPolicy()
    try:
        if isinstance(given, str):
            return policy_named(given)
        if isinstance(given, Mapping):
            return _by_parts(given, problems)
    except PolicyError as err:
        problems.append(f"options.placement: {err}")
        return PlacementPolicy()
    problems.append(f"options.placement must be the name of a policy, or an object with {', '.join(PLACES)}")
    return PlacementPolicy()


def _by_parts(given: Mapping[object, object], problems: list[str]) -> Policy:
    names = {str(key): name for key, name in given.items() if name is not None}
    known = {key: str(names[key]) for key in PLACES if key in names}
    unknown = sorted(names.keys() - known)
    problems += [f"options.placement has no member {key}: {', '.join(PLACES)} are read" for key in unknown]
    return PlacementPolicy.from_names(**known)
