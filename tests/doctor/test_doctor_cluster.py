"""The checks of policies, versions, clocks, replicas, rights, nodes and annotations, on facts made by hand."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from extender_api.doctor import cluster, policies, render, shipped
from extender_api.doctor.facts import Facts, Installation, Right, Rights, Seen
from extender_api.doctor.finding import Finding, Level, error, ok, warn, worst
from topology.inventory import InventorySettings, NodeInventory, describe
from topology.node import NodeFacts

NOW_MS = 1_800_000_000_000
RENEWED = "2027-01-15T08:00:00.000000Z"


def node(name: str, **labels: str) -> NodeInventory:
    facts = NodeFacts(
        name=name,
        labels={"nvidia.com/gpu.product": "NVIDIA-L4", **labels},
        capacity={"nvidia.com/gpu": 2},
        allocatable={"nvidia.com/gpu": 2},
    )
    return describe(facts, InventorySettings(shares_by_default=True))


def installed() -> dict[tuple[str, str], Seen]:
    """The shipped policies as an API server gives them back, with its defaults."""
    result = {}
    for document in (
        *shipped.documents("base", "gate-policy.yaml"),
        *shipped.documents("base", "devices-policy.yaml"),
        *shipped.documents("base", "protection-policy.yaml"),
    ):
        body: dict[str, Any] = deepcopy(dict(document))
        if "matchConstraints" in body["spec"]:
            body["spec"]["matchConstraints"] |= {"matchPolicy": "Equivalent", "objectSelector": {}}
        result[body["kind"], body["metadata"]["name"]] = Seen(200, body)
    return result


WELL = Facts(
    now_ms=NOW_MS,
    server_ms=NOW_MS,
    version=Seen(200, {"gitVersion": "v1.37.2"}),
    policies=installed(),
    installations=(
        Installation(
            namespace="tangram-system",
            name="tangram",
            replicas=2,
            ready=2,
            images={"kube-scheduler": "registry.k8s.io/kube-scheduler:v1.37.2", "tangram": "tangram:0.1.0"},
            pods=("tangram-a", "tangram-b"),
            lease=Seen(
                200,
                {
                    "metadata": {"name": "tangram"},
                    "spec": {"holderIdentity": "tangram-a_1", "renewTime": RENEWED, "leaseDurationSeconds": 15},
                },
            ),
            rights=Rights("tangram-system/tangram", 12),
        ),
    ),
    nodes=(node("a"), node("b")),
    allocations=3,
)


def check(facts: Facts) -> list[Finding]:
    return [*policies.check(facts), *cluster.check(facts, "0.1.0")]


def spoilt(**change: Any) -> Facts:
    return replace(WELL, installations=(replace(WELL.installations[0], **change),))


def of_version(text: str) -> Facts:
    return replace(spoilt(images={}), version=Seen(200, {"gitVersion": text}))


def with_lease(**spec: Any) -> Facts:
    body = {"metadata": {"name": "tangram"}, "spec": {**WELL.installations[0].lease.body["spec"], **spec}}
    return spoilt(lease=Seen(200, body))


def with_policy(change: Callable[[dict[tuple[str, str], Any]], None]) -> Facts:
    changed: dict[tuple[str, str], Any] = installed()
    change(changed)
    return replace(WELL, policies=changed)


def test_a_sound_installation_has_nothing_to_mend() -> None:
    found = check(WELL)
    assert worst(found) is Level.OK, found
    assert not any(finding.mend for finding in found)


CASES: list[tuple[Facts, Level, str, str]] = [
    (of_version("v1.33.1"), Level.ERROR, "Kubernetes version", "below 1.34"),
    (of_version("v1.35.0"), Level.WARN, "Kubernetes version", "beta that is off"),
    (of_version("v1.39.0-alpha.1"), Level.WARN, "Kubernetes version", "newer"),
    (replace(WELL, version=Seen(500)), Level.WARN, "Kubernetes version", "unknown"),
    (replace(WELL, now_ms=NOW_MS + 3_000), Level.WARN, "clocks", "3 s ahead of"),
    (replace(WELL, now_ms=NOW_MS - 60_000), Level.ERROR, "clocks", "60 s behind"),
    (replace(WELL, server_ms=None), Level.WARN, "clocks", "does not tell"),
    (spoilt(ready=1), Level.WARN, "replicas", "1 of 2 ready"),
    (spoilt(ready=0), Level.ERROR, "replicas", "none of 2"),
    (spoilt(images={"kube-scheduler": "x/kube-scheduler:v1.38.0"}), Level.ERROR, "versions", "newer than the API"),
    (spoilt(images={"kube-scheduler": "x/kube-scheduler:v1.35.9"}), Level.WARN, "versions", "2 minor versions"),
    (spoilt(images={"tangram": "r:5000/tangram:0.2.0"}), Level.WARN, "versions", "Tangram 0.2.0 runs"),
    (spoilt(lease=Seen(404)), Level.ERROR, "leader", "nobody has taken"),
    (spoilt(lease=Seen(403, {"message": "no"})), Level.WARN, "leader", "no (HTTP 403)"),
    (with_lease(holderIdentity=""), Level.ERROR, "leader", "nobody holds"),
    (with_lease(renewTime="2027-01-15T07:59:00.000000Z"), Level.ERROR, "leader", "nobody holds"),
    (with_lease(renewTime="2027-01-15T08:00:05.000000Z"), Level.WARN, "leader", "5 s in the future"),
    (with_lease(holderIdentity="elsewhere_9"), Level.ERROR, "leader", "none of the replicas"),
    (
        spoilt(rights=Rights("x", 12, (Right("create", "", "pods/binding"),))),
        Level.ERROR,
        "rights",
        "create pods/binding",
    ),
    (replace(WELL, nodes=()), Level.WARN, "devices", "none of 0 nodes"),
    (replace(WELL, nodes=(node("a", **{"tangram.scheduler/shares": "false"}),)), Level.WARN, "shares", "no node takes"),
    (replace(WELL, unreadable_nodes=("node x: status",)), Level.ERROR, "node", "cannot be read"),
    (replace(WELL, strange_allocations=(("a/p", "version 2"),)), Level.ERROR, "allocation", "first: a/p: version 2"),
    (replace(WELL, trouble=("pods: 403",)), Level.WARN, "not looked at", "pods: 403"),
]


@pytest.mark.parametrize(("facts", "level", "title", "text"), CASES)
def test_what_is_wrong_is_found_with_a_way_to_mend_it(facts: Facts, level: Level, title: str, text: str) -> None:
    found = [finding for finding in check(facts) if finding.level is not Level.OK]
    assert [finding.level for finding in found] == [level], found
    assert found[0].title.startswith(title)
    assert text in found[0].found
    assert found[0].mend


def test_warnings_about_nodes_are_grouped() -> None:
    odd = [node(f"n{i}", **{"nvidia.com/gpu.memory": "much"}) for i in range(7)]
    assert odd[0].warnings, "the inventory warns about this label"
    found = [finding for finding in check(replace(WELL, nodes=tuple(odd))) if finding.level is Level.WARN]
    assert len(found) == len(odd[0].warnings)
    assert "n0, n1, n2, n3, n4 and 2 more" in found[0].title


@pytest.mark.parametrize(
    ("kind", "name"),
    [key for key in policies.names()],
)
def test_missing_and_hidden_policies_are_found(kind: str, name: str) -> None:
    for seen, level in ((Seen(404), Level.ERROR), (Seen(403), Level.WARN)):
        facts = replace(WELL, policies={**WELL.policies, (kind, name): seen})
        found = list(policies.check(facts))
        assert sorted(finding.level for finding in found) == sorted([Level.OK, Level.OK, level]), found


def test_changed_policies_are_found() -> None:
    def loosened(changed: dict[tuple[str, str], Any]) -> None:
        changed["MutatingAdmissionPolicy", shipped.GATE].body["spec"]["failurePolicy"] = "Ignore"
        changed["MutatingAdmissionPolicy", shipped.DEVICES].body["spec"]["matchConditions"].pop()
        changed["ValidatingAdmissionPolicy", shipped.PROTECTION].body["spec"]["validations"].pop()

    gate, devices, protection = policies.check(with_policy(loosened))
    assert gate.level is Level.ERROR
    assert "spec.failurePolicy" in gate.found
    assert (devices.level, devices.title) == (Level.ERROR, "devices policy")
    assert "spec.matchConditions" in devices.found
    assert protection.level is Level.ERROR
    assert "spec.validations" in protection.found


def test_provider_form_and_line_breaks_are_no_change() -> None:
    def provider(changed: dict[tuple[str, str], Any]) -> None:
        for name in shipped.MUTATING:
            changed["MutatingAdmissionPolicy", name] = Seen(200, broken_anew(shipped.mutating_policy(name)[1]))

    assert worst(policies.check(with_policy(provider))) is Level.OK


@pytest.mark.parametrize("name", shipped.MUTATING)
def test_policies_of_two_forms_are_found(name: str) -> None:
    """Offloaded pods would be ours for one policy and not for the other."""

    def half(changed: dict[tuple[str, str], Any]) -> None:
        changed["MutatingAdmissionPolicy", name] = Seen(200, broken_anew(shipped.mutating_policy(name)[1]))

    (found,) = (finding for finding in policies.check(with_policy(half)) if finding.level is not Level.OK)
    assert (found.level, found.title) == (Level.ERROR, "devices policy")
    assert "spec.matchConditions[0].expression" in found.found


def broken_anew(document: Any) -> Any:
    """The document with other line breaks in its texts."""
    return json.loads(json.dumps(document).replace("\\n", " \\n\\n"))


@pytest.mark.parametrize(
    ("expression", "level"),
    [
        ("!(request.userInfo.username in ['system:serviceaccount:v:vc-v', 'x'])", Level.OK),
        ("false", Level.ERROR),
        ("!(request.userInfo.username in []) && false", Level.ERROR),
    ],
)
def test_exempt_accounts_may_be_listed_and_nothing_else(expression: str, level: Level) -> None:
    def change(changed: dict[tuple[str, str], Any]) -> None:
        conditions = changed["ValidatingAdmissionPolicy", shipped.PROTECTION].body["spec"]["matchConditions"]
        conditions[0]["expression"] = expression

    assert worst(policies.check(with_policy(change))) is level


def test_a_protection_that_only_warns_is_found() -> None:
    def change(changed: dict[tuple[str, str], Any]) -> None:
        binding = changed["ValidatingAdmissionPolicyBinding", shipped.PROTECTION].body
        binding["spec"]["validationActions"] = ["Warn"]

    assert "does not deny" in list(policies.check(with_policy(change)))[-1].found


def test_rendering_for_people_and_programs() -> None:
    found = [ok("a", "fine"), warn("b", "so so", "do this"), error("c", "bad [x]", "do that")]
    console = Console(width=200, record=True, color_system=None, file=io.StringIO())
    console.print(render.for_people(found))
    assert console.export_text().splitlines() == [
        "✓ a: fine",
        "! b: so so",
        "    → do this",
        "✗ c: bad [x]",
        "    → do that",
        "1 errors, 1 warnings, 1 well",
    ]
    told = render.for_programs(found)
    assert told["worst"] == "error"
    assert told["findings"][1] == {"level": "warn", "title": "b", "found": "so so", "mend": "do this"}
    assert worst([]) is Level.OK
