"""Advise mode: opinions about nodes for a scheduler that decides itself. Nothing is booked, nothing is bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from scheduler import placement
from scheduler.cluster import Cluster
from scheduler.constraints import Constraints
from scheduler.pod import PodFacts
from scheduler.reason import Code
from scheduler.request import Demand, Request
from scheduler.verdict import FilterVerdict

SCORE_STEP: Final = 10
"""Points between neighbours in the order: with the shipped weight one step outweighs all in-tree scores together."""


def filter_nodes(
    cluster: Cluster, pod: PodFacts, request: Request, constraints: Constraints, offered: Sequence[str]
) -> FilterVerdict:
    """Removes only nodes that cannot hold the pod. Shares are refused: no annotation could be written."""
    if request.demand is Demand.SHARE:
        return FilterVerdict(refused=dict.fromkeys(offered, Code.SHARES_NEED_PLAN_MODE))
    fits = placement.fits(cluster.state, request, cluster.mask(pod, constraints))
    slot_of = cluster.state.slot_of
    passing = [name for name in offered if (slot := slot_of.get(name)) is None or fits[slot]]
    if passing:
        return FilterVerdict(nodes=passing)
    return FilterVerdict(refused=refusals(cluster, pod, request, constraints, offered))


def prioritize(cluster: Cluster, request: Request, offered: Sequence[str]) -> list[tuple[str, int]]:
    """Scores that order the offered nodes as the placement policy would: distinct, best first, `SCORE_STEP` apart.

    Distinct, because kube-scheduler breaks ties at random and asks again before the watch shows the last pod.
    """
    slot_of, state = cluster.state.slot_of, cluster.state
    known = [name for name in offered if name in slot_of]
    slots = np.array([slot_of[name] for name in known], np.int64)
    points = placement.scores(state, request, slots)
    order = np.lexsort((state.arrays.rank[slots], -points))
    return [(known[i], (len(known) - place) * SCORE_STEP) for place, i in enumerate(order.tolist())]


def refusals(
    cluster: Cluster, pod: PodFacts, request: Request, constraints: Constraints, offered: Sequence[str]
) -> Mapping[str, Code]:
    """For each offered node the first reason that rules it out. Nodes we do not know are NO_NODES."""
    codes = placement.codes(cluster.state, request, cluster.refusals(pod, constraints))
    slot_of = cluster.state.slot_of
    return {
        name: Code.NO_NODES if (slot := slot_of.get(name)) is None else codes.get(slot, Code.NOT_OFFERED)
        for name in offered
    }
