"""Counts of matching pods that are kept while they are asked for."""

from __future__ import annotations

from scheduler.pod import PodAffinityTerm, PodFacts
from scheduler.pod_terms import Namespaces, Terms
from scheduler.tally import Tallies
from topology.selector import Requirement


def wanting(app: str) -> Terms:
    return (PodAffinityTerm("zone", (Requirement("app", "In", (app,)),), ("a",)),)


def pod(uid: str, app: str) -> PodFacts:
    return PodFacts(uid=uid, namespace="a", name=uid, labels={"app": app})


def test_counts_follow_the_pods() -> None:
    tallies = Tallies(Namespaces())
    tallies.add(pod("u", "x"), 3)
    counts = tallies.of(wanting("x"))
    assert counts == {3: 1}
    tallies.add(pod("v", "x"), 3)
    tallies.add(pod("w", "x"), 4)
    tallies.add(pod("o", "y"), 5)
    assert counts == {3: 2, 4: 1}
    assert tallies.of(wanting("x")) is counts
    tallies.remove(pod("w", "x"), 4)
    assert counts == {3: 2}


def test_the_terms_unasked_for_longest_are_forgotten() -> None:
    tallies = Tallies(Namespaces(), remembered=2)
    kept, lost = tallies.of(wanting("x")), tallies.of(wanting("y"))
    assert tallies.of(wanting("x")) is kept
    tallies.of(wanting("z"))
    assert tallies.of(wanting("x")) is kept
    assert tallies.of(wanting("y")) is not lost
    tallies.add(pod("u", "y"), 1)
    assert lost == {}
    assert tallies.of(wanting("y")) == {1: 1}
