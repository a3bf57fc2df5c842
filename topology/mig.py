"""Names of MIG instances: profiles such as `1g.10gb+me`, and the resources that offer them.

Instances are counted as what they are. A name gives slices of compute, never an amount of memory: the number before
"gb" is rounded in its own way on every card and drifts with the driver.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from topology.vocabulary import MIG_RESOURCE_PREFIX

_PROFILE: Final = re.compile(
    r"(?:(?P<instances>[1-9][0-9]?)c\.)?(?P<slices>[1-9][0-9]?)g\.(?P<gb>[1-9][0-9]{0,3})gb"
    r"(?P<variant>(?:[.+-][a-z]+)*)"
)
_SHARED: Final = ".shared"


@dataclass(frozen=True, slots=True)
class MigProfile:
    """One kind of MIG instance.

    `slices` is the number before "g" (of 7, or 4 on an A30), `gb` the number in the name, `instances` the number before
    "c" where the instance is divided further, `variant` what follows, such as "+me", "-me" or "+me.all".
    """

    slices: int
    gb: int
    variant: str = ""
    instances: int | None = None

    @property
    def name(self) -> str:
        """As nvidia-smi writes it."""
        divided = f"{self.instances}c." if self.instances else ""
        return f"{divided}{self.slices}g.{self.gb}gb{self.variant}"


def parse_profile(text: str) -> MigProfile | None:
    """A profile from its name, in NVIDIA's form or in the form resource names have (`.me` for `+me`); else None."""
    match = _PROFILE.fullmatch(text)
    if match is None:
        return None
    variant = match["variant"]
    if variant.startswith("."):
        variant = "+" + variant[1:]
    return MigProfile(
        slices=int(match["slices"]),
        gb=int(match["gb"]),
        variant=variant,
        instances=int(match["instances"]) if match["instances"] else None,
    )


def is_mig_resource(resource: str) -> bool:
    """Whether the resource name claims to be one of MIG instances; its profile may still be unreadable."""
    return resource.startswith(MIG_RESOURCE_PREFIX)


def profile_of(resource: str) -> MigProfile | None:
    """The profile behind a resource such as `nvidia.com/mig-3g.20gb`, time-sliced (`….shared`) or not; else None."""
    if not is_mig_resource(resource):
        return None
    return parse_profile(resource.removeprefix(MIG_RESOURCE_PREFIX).removesuffix(_SHARED))


def instances(amounts: Mapping[str, int]) -> dict[str, int]:
    """The MIG resources of a resource list of which there is at least one, by resource name."""
    return {name: count for name, count in amounts.items() if count > 0 and is_mig_resource(name)}
