"""Static rules of a pod against one node, after kube-scheduler's filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.constraints import Constraints, constraints_of, refusal
from scheduler.pod import NodeSelectorTerm, PodFacts, Toleration
from scheduler.reason import Code
from topology.node import NodeFacts, Taint
from topology.selector import Requirement

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
CORDON = "node.kubernetes.io/unschedulable"

# what the API server's DefaultTolerationSeconds gives to every pod
DEFAULT_TOLERATIONS = (
    Toleration(NOT_READY, "Exists", "", "NoExecute"),
    Toleration(UNREACHABLE, "Exists", "", "NoExecute"),
)
ALL = Toleration(operator="Exists")


def pod(**facts: Any) -> PodFacts:
    return PodFacts(uid="u", namespace="n", name="p", **facts)


def node(labels: Mapping[str, str] | None = None, *taints: Taint, **facts: Any) -> NodeFacts:
    return NodeFacts("n1", labels=labels or {}, taints=taints, **facts)


def verdict(facts: PodFacts, where: NodeFacts) -> Code | None:
    return refusal(constraints_of(facts), where)


def term(*labels: Requirement, fields: tuple[Requirement, ...] = ()) -> NodeSelectorTerm:
    return NodeSelectorTerm(labels, fields)


def has(key: str, operator: str, *values: str) -> Requirement:
    return Requirement(key, operator, values)


# -- node selector and node affinity -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, None),
        ({"gpu": "a100"}, None),
        ({"gpu": "a100", "zone": "z1"}, None),
        ({"gpu": "h100"}, Code.NODE_SELECTOR),
        ({"gpu": "a100", "rack": "r1"}, Code.NODE_SELECTOR),
        ({"rack": ""}, Code.NODE_SELECTOR),
    ],
)
def test_node_selector(selector: dict[str, str], expected: Code | None) -> None:
    assert verdict(pod(node_selector=selector), node({"gpu": "a100", "zone": "z1"})) == expected


NODE = {"gpu": "a100", "zone": "z1", "cards": "8", "odd": "x"}


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param(None, True, id="no affinity"),
        pytest.param((), False, id="no terms"),
        pytest.param((term(),), False, id="an empty term matches nothing"),
        pytest.param((term(), term(has("gpu", "Exists"))), True, id="an empty term beside another is skipped"),
        pytest.param((term(has("gpu", "In", "h100")), term(has("zone", "In", "z1"))), True, id="terms are ORed"),
        pytest.param((term(has("gpu", "In", "a100"), has("zone", "In", "z2")),), False, id="expressions are ANDed"),
        pytest.param((term(has("rack", "NotIn", "r1")),), True, id="NotIn holds for an absent label"),
        pytest.param((term(has("rack", "DoesNotExist")),), True, id="DoesNotExist"),
        pytest.param((term(has("cards", "Gt", "4")),), True, id="Gt compares numbers"),
        pytest.param((term(has("cards", "Lt", "10")),), True, id="Lt compares numbers"),
        pytest.param((term(has("odd", "Gt", "4")),), False, id="Gt on a label that is no number"),
        pytest.param((term(has("rack", "Lt", "4")),), False, id="Lt on an absent label"),
        pytest.param((term(has("cards", "Gt", "four")),), False, id="Gt with a value that is no number"),
        pytest.param((term(has("gpu", "NotIn")),), False, id="NotIn without values cannot be read"),
        pytest.param(
            (term(has("gpu", "NotIn", "no label value!")), term(has("gpu", "Exists"))), True, id="only its term is lost"
        ),
        pytest.param((term(fields=(has("metadata.name", "In", "n1"),)),), True, id="this node by name"),
        pytest.param((term(fields=(has("metadata.name", "In", "n2"),)),), False, id="another node by name"),
        pytest.param((term(fields=(has("metadata.name", "NotIn", "n1"),)),), False, id="any other node"),
        pytest.param((term(fields=(has("metadata.name", "In", "n1", "n2"),)),), False, id="two names cannot be read"),
        pytest.param((term(fields=(has("metadata.name", "Exists"),)),), False, id="fields know In and NotIn"),
        pytest.param((term(fields=(has("metadata.uid", "In", "n1"),)),), False, id="other fields are empty"),
        pytest.param(
            (term(has("gpu", "In", "h100"), fields=(has("metadata.name", "In", "n1"),)),), False, id="name and labels"
        ),
    ],
)
def test_node_affinity(terms: tuple[NodeSelectorTerm, ...] | None, expected: bool) -> None:
    assert verdict(pod(node_affinity=terms), node(NODE)) == (None if expected else Code.NODE_AFFINITY)


def test_selector_and_affinity_are_both_needed() -> None:
    facts = pod(node_selector={"gpu": "a100"}, node_affinity=(term(has("zone", "In", "z2")),))
    assert verdict(facts, node(NODE)) == Code.NODE_AFFINITY
    assert verdict(facts, node({"gpu": "h100", "zone": "z2"})) == Code.NODE_SELECTOR
    assert verdict(facts, node({"gpu": "a100", "zone": "z2"})) is None


# -- taints --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        (Toleration("k", "Equal", "v", "NoSchedule"), Taint("k", "v", "NoSchedule"), True),
        (Toleration("k", "", "v", "NoSchedule"), Taint("k", "v", "NoSchedule"), True),
        (Toleration("k", "Equal", "w", "NoSchedule"), Taint("k", "v", "NoSchedule"), False),
        (Toleration("k", "Exists", "", "NoSchedule"), Taint("k", "v", "NoSchedule"), True),
        (Toleration("k", "Exists"), Taint("k", "v", "NoExecute"), True),
        (Toleration("k", "Exists", "", "NoExecute"), Taint("k", "v", "NoSchedule"), False),
        (Toleration("other", "Exists"), Taint("k", "v", "NoSchedule"), False),
        (Toleration("", "Exists"), Taint("k", "v", "NoSchedule"), True),
        (Toleration("", "Exists", "", "NoExecute"), Taint("k", "v", "NoSchedule"), False),
        (Toleration("k", "Equal", ""), Taint("k", "", "NoExecute"), True),
        (Toleration("k", "Lt", "9"), Taint("k", "5", "NoSchedule"), False),  # a feature that is off
        (Toleration("k", "Gt", "1"), Taint("k", "5", "NoSchedule"), False),
        (Toleration("K", "Exists"), Taint("k", "v", "NoSchedule"), False),
    ],
)
def test_tolerations(toleration: Toleration, taint: Taint, expected: bool) -> None:
    found = verdict(pod(tolerations=(toleration,)), node({}, taint))
    assert found == (None if expected else Code.UNTOLERATED_TAINT)


def test_prefer_no_schedule_forbids_nothing() -> None:
    assert verdict(pod(), node({}, Taint("k", "v", "PreferNoSchedule"))) is None


def test_every_forbidding_taint_must_be_tolerated() -> None:
    where = node({}, Taint("a", "", "NoSchedule"), Taint("b", "", "NoExecute"))
    assert verdict(pod(tolerations=(Toleration("a", "Exists"),)), where) == Code.UNTOLERATED_TAINT
    assert verdict(pod(tolerations=(Toleration("a", "Exists"), Toleration("b", "Exists"))), where) is None


# -- cordoned and not ready ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ((), Code.NODE_UNSCHEDULABLE),
        (DEFAULT_TOLERATIONS, Code.NODE_UNSCHEDULABLE),
        ((Toleration(CORDON, "Exists", "", "NoSchedule"),), None),
        ((Toleration(CORDON, "Equal", "", "NoSchedule"),), None),
        ((Toleration(CORDON, "Equal", "x"),), Code.NODE_UNSCHEDULABLE),
        ((Toleration(CORDON, "Exists", "", "NoExecute"),), Code.NODE_UNSCHEDULABLE),
        ((ALL,), None),
    ],
)
@pytest.mark.parametrize("taints", [(), (Taint(CORDON, "", "NoSchedule"),)], ids=["before its taint", "tainted"])
def test_a_cordoned_node(tolerations: tuple[Toleration, ...], expected: Code | None, taints: tuple[Taint, ...]) -> None:
    assert verdict(pod(tolerations=tolerations), node({}, *taints, unschedulable=True)) == expected


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ((), Code.NODE_NOT_READY),
        (DEFAULT_TOLERATIONS, Code.NODE_NOT_READY),  # they tolerate staying there, not going there
        ((Toleration(NOT_READY, "Exists", "", "NoSchedule"),), None),
        ((Toleration(NOT_READY, "Exists"),), None),
        ((ALL,), None),
    ],
)
def test_a_node_whose_condition_is_not_ready_before_its_taint(
    tolerations: tuple[Toleration, ...], expected: Code | None
) -> None:
    assert verdict(pod(tolerations=tolerations), node(ready=False)) == expected


@pytest.mark.parametrize("key", [NOT_READY, UNREACHABLE])
@pytest.mark.parametrize("ready", [True, False])
def test_the_taint_decides_once_it_is_there(key: str, ready: bool) -> None:
    where = node({}, Taint(key, "", "NoSchedule"), Taint(key, "", "NoExecute"), ready=ready)
    assert verdict(pod(tolerations=DEFAULT_TOLERATIONS), where) == Code.NODE_NOT_READY
    assert verdict(pod(tolerations=(*DEFAULT_TOLERATIONS, Toleration(key, "Exists", "", "NoSchedule"))), where) is None


def test_the_no_execute_taint_alone_does_not_open_a_node_that_is_not_ready() -> None:
    where = node({}, Taint(NOT_READY, "", "NoExecute"), ready=False)
    assert verdict(pod(tolerations=DEFAULT_TOLERATIONS), where) == Code.NODE_NOT_READY


# -- the key -------------------------------------------------------------------------------------------------------


def test_pods_with_the_same_rules_share_one_key() -> None:
    one = pod(node_selector={"a": "1", "b": "2"}, tolerations=(ALL, *DEFAULT_TOLERATIONS, ALL))
    other = pod(node_selector={"b": "2", "a": "1"}, tolerations=(*DEFAULT_TOLERATIONS, ALL))
    assert constraints_of(one) == constraints_of(other)
    assert hash(constraints_of(one)) == hash(constraints_of(other))
    assert constraints_of(pod()) == Constraints()


def test_a_toleration_that_only_prefers_makes_no_difference() -> None:
    assert constraints_of(pod(tolerations=(Toleration("k", "Exists", "", "PreferNoSchedule"),))) == Constraints()
