"""Policies to try things with: those that learn have learnt something."""

from __future__ import annotations

from scheduler.packing.hardware import Hardware
from scheduler.packing.mix import Mix, PodClass
from scheduler.packing.named import NAMES, policy_named
from scheduler.packing.refresh import learner_of
from scheduler.packing.survey import hardware_of
from scheduler.policy import Policy
from scheduler.state import ClusterState

__all__ = ["MIX", "NAMES", "OTHER_MIX", "policy", "teach"]

MIX = Mix(
    (
        PodClass(100, 0, 1, 500),
        PodClass(100, 0, 1, 300),
        PodClass(1000, 0, 0, 0),
        PodClass(200, 0, 1, 1000),
        PodClass(400, 1 << 30, 2, 1000),
        PodClass(100, 0, 1, 0, share_mib=40),
        PodClass(100, 0, 2, 250),
    ),
    (5, 3, 2, 4, 2, 1, 1),
)
OTHER_MIX = Mix((PodClass(300, 0, 1, 700), PodClass(100, 0, 4, 1000)), (3, 1))


def policy(name: str) -> Policy:
    """The policy of that name, which knows MIX where it learns."""
    made = policy_named(name)
    teach(made, MIX, Hardware(()))
    return made


def teach(made: Policy, mix: Mix, hardware: Hardware | ClusterState) -> None:
    """Lets a policy know the demand, if it wants to."""
    learner = learner_of(made)
    if isinstance(hardware, ClusterState):
        hardware = hardware_of(hardware)
    if learner is not None and hardware.models:
        learner.publish(learner.build(mix, hardware))
