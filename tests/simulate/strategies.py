"""Random scenarios, small enough to be counted by hand and full enough to be refused."""

from __future__ import annotations

from hypothesis import strategies as st

from scheduler.pod import Container, NodeSelectorTerm, PodFacts
from scheduler.simulate.scenario import Job, Outage, Scenario
from tests.simulate.naive import GPU, PRODUCT
from topology import vocabulary
from topology.node import NodeFacts
from topology.selector import Requirement

PRODUCTS = ("A", "B")
GIB = 1 << 30


@st.composite
def nodes(draw: st.DrawFn) -> tuple[NodeFacts, ...]:
    """One to five nodes of two products; some have no devices."""
    found = []
    for number in range(draw(st.integers(1, 5))):
        gpus = draw(st.integers(0, 4))
        amounts = {
            "cpu": draw(st.integers(1, 16)) * 1000,
            "memory": draw(st.integers(1, 16)) * GIB,
            "pods": draw(st.sampled_from((1, 3, 100))),
        }
        labels = {}
        if gpus:
            amounts[GPU] = gpus
            labels = {PRODUCT: draw(st.sampled_from(PRODUCTS)), "nvidia.com/gpu.memory": "16384"}
        found.append(NodeFacts(f"n{number}", labels=labels, capacity=amounts, allocatable=amounts))
    return tuple(found)


@st.composite
def pods(draw: st.DrawFn, name: str) -> PodFacts:
    """A pod without devices, with a share, or with whole devices; some want one product."""
    requests = {"cpu": draw(st.integers(0, 6)) * 500, "memory": draw(st.integers(0, 4)) * GIB}
    limits, annotations, affinity = {}, {}, None
    kind = draw(st.sampled_from(("plain", "share", "share", "whole", "whole")))
    if kind == "whole":
        requests[GPU] = limits[GPU] = draw(st.integers(1, 4))
    elif kind == "share":
        annotations["gpu-fraction"] = f"0.{draw(st.integers(1, 999)):03}"
    if kind != "plain" and draw(st.booleans()):
        affinity = (NodeSelectorTerm((Requirement(PRODUCT, "In", (draw(st.sampled_from(PRODUCTS)),)),)),)
    return PodFacts(
        f"uid-{name}",
        "default",
        name,
        annotations=annotations,
        scheduler_name=vocabulary.DEFAULT_SCHEDULER_NAME,
        containers=(Container("main", requests, limits),),
        node_affinity=affinity,
    )


@st.composite
def scenarios(draw: st.DrawFn, *, waits: bool, most_pods: int = 1) -> Scenario:
    """Up to 25 jobs of up to `most_pods` pods, close together; some never end. Now and then a node fails."""
    found = draw(nodes())
    at_ms, jobs = 0, []
    for number in range(draw(st.integers(1, 25))):
        at_ms += draw(st.integers(0, 20))
        members = tuple(draw(pods(f"j{number}-{at}")) for at in range(draw(st.integers(1, most_pods))))
        jobs.append(Job(f"j{number}", members, at_ms, draw(st.none() | st.integers(0, 100))))
    outages = []
    for one in found:
        if draw(st.integers(0, 3)) == 0:
            begin_ms = draw(st.integers(0, 200))
            end_ms = draw(st.none() | st.integers(begin_ms + 1, 300))
            outages.append(Outage(one.name, begin_ms, end_ms))
    return Scenario("random", found, tuple(jobs), waits=waits, outages=tuple(outages))
