from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from extender_api.cluster import decode, fields
from extender_api.cluster.decode import DecodeError, decode_pod
from extender_api.cluster.pod import DEVICES_PATH, is_kept_annotation
from scheduler.pod import (
    Container,
    HostPort,
    NodeSelectorTerm,
    Owner,
    PodAffinityTerm,
    PodFacts,
    Toleration,
)
from tests.cluster.objects import Object, pod
from topology import vocabulary
from topology.selector import Requirement

GI = 1 << 30


def both_ways(raw: Object) -> PodFacts:
    """Decodes bytes and the parsed form, which must agree."""
    facts = decode_pod(json.dumps(raw).encode())
    assert decode_pod(raw) == facts
    return facts


def containers(*models: Object, **spec: Any) -> PodFacts:
    return both_ways(pod(spec={"containers": list(models), **spec}))


def test_everything_that_is_read() -> None:
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "train-0",
            "namespace": "team-a",
            "uid": "u-1",
            "resourceVersion": "77",
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionTimestamp": "2026-01-02T03:05:05.250000Z",
            "labels": {"app": "train"},
            "annotations": {"gpu-fraction": "0.5", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "o-0"},
                {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "o-1", "controller": True},
            ],
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {
            "schedulerName": "tangram",
            "nodeName": "n1",
            "priority": 75,
            "preemptionPolicy": "Never",
            "hostNetwork": False,
            "nodeSelector": {"pool": "a100"},
            "overhead": {"cpu": "250m", "memory": "120Mi"},
            "resources": {"requests": {"cpu": "8"}, "limits": {"memory": "16Gi"}},
            "schedulingGates": [{"name": "a/b"}, {"name": vocabulary.GATE}],
            "tolerations": [
                {"operator": "Exists"},
                {"key": "k", "value": "v", "effect": "NoSchedule", "tolerationSeconds": 3},
            ],
            "containers": [
                {
                    "name": "main",
                    "image": "x",
                    "resources": {
                        "requests": {"cpu": "1500m", "memory": "1Gi"},
                        "limits": {"cpu": "2", "memory": "2Gi", "nvidia.com/gpu": "2"},
                    },
                    "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081, "protocol": "UDP"}],
                }
            ],
            "initContainers": [{"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "0.1"}}}],
        },
        "status": {"phase": "Running", "nominatedNodeName": "n1"},
    }
    assert both_ways(raw) == PodFacts(
        uid="u-1",
        namespace="team-a",
        name="train-0",
        labels={"app": "train"},
        annotations={"gpu-fraction": "0.5"},
        owner=Owner("Job", "train", "o-1", "batch/v1"),
        created_ms=int(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()) * 1000,
        deleted_ms=int(datetime(2026, 1, 2, 3, 5, 5, tzinfo=UTC).timestamp()) * 1000 + 250,
        resource_version="77",
        scheduler_name="tangram",
        node_name="n1",
        nominated_node="n1",
        phase="Running",
        gates=("a/b", vocabulary.GATE),
        priority=75,
        preemption_policy="Never",
        containers=(
            Container(
                "main",
                requests={"cpu": 1500, "memory": GI, "nvidia.com/gpu": 2},
                limits={"cpu": 2000, "memory": 2 * GI, "nvidia.com/gpu": 2},
                host_ports=(HostPort("UDP", "", 8081),),
            ),
        ),
        init_containers=(Container("side", requests={"cpu": 100}, restartable=True),),
        overhead={"cpu": 250, "memory": 120 << 20},
        pod_requests={"cpu": 8000},
        pod_limits={"memory": 16 * GI},
        node_selector={"pool": "a100"},
        tolerations=(Toleration("", "Exists", "", ""), Toleration("k", "Equal", "v", "NoSchedule")),
    )


def test_an_almost_empty_pod_gets_kubernetes_defaults() -> None:
    facts = both_ways({"metadata": {"name": "p"}})
    assert facts == PodFacts(uid="default/p", namespace="default", name="p")
    assert facts.scheduler_name == "default-scheduler"
    assert facts.phase == "Pending"


def test_nulls_are_as_good_as_nothing() -> None:
    raw = {
        "metadata": {"name": "p", "labels": None, "annotations": None, "ownerReferences": None, "uid": "u"},
        "spec": {"containers": None, "affinity": None, "tolerations": None, "schedulingGates": None, "priority": None},
        "status": None,
    }
    assert both_ways(raw) == PodFacts(uid="u", namespace="default", name="p")


class TestAnnotations:
    def test_every_word_of_the_vocabulary_is_kept(self) -> None:
        words = [word for word in vars(vocabulary).values() if isinstance(word, vocabulary.Word)]
        assert len(words) > 5
        assert all(is_kept_annotation(spelling) for word in words for spelling in word.spellings)
        assert is_kept_annotation(vocabulary.ALLOCATION)
        assert is_kept_annotation(vocabulary.GPU_UUIDS)

    @pytest.mark.parametrize(
        "key",
        ["kubectl.kubernetes.io/last-applied-configuration", "cni.projectcalico.org/podIP", "prometheus.io/scrape"],
    )
    def test_noise_is_dropped(self, key: str) -> None:
        assert not is_kept_annotation(key)

    def test_a_misspelt_word_is_kept_so_that_it_can_be_reported(self) -> None:
        assert is_kept_annotation("gpu-fractoin")


class TestAmounts:
    def test_what_is_only_limited_is_requested(self) -> None:
        resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "nvidia.com/gpu": "1"}}
        (container,) = containers({"name": "c", "resources": resources}).containers
        assert container.requests == {"cpu": 1000, "nvidia.com/gpu": 1}
        assert container.limits == {"cpu": 2000, "nvidia.com/gpu": 1}

    def test_numbers_as_yaml_has_them(self) -> None:
        (container,) = containers(
            {"name": "c", "resources": {"requests": {"cpu": 0.5, "nvidia.com/gpu": 2}}}
        ).containers
        assert container.requests == {"cpu": 500, "nvidia.com/gpu": 2}

    @pytest.mark.parametrize("bad", ["12 Gi", "", "one", True, ["1"], {"a": 1}, None])
    def test_a_bad_quantity_is_named_with_its_path(self, bad: Any) -> None:
        good = {"name": "a", "resources": {"requests": {"cpu": "1"}}}
        raw = pod(
            "x",
            spec={"containers": [good, {"name": "b", "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": bad}}}]},
        )
        for form in (raw, json.dumps(raw)):
            with pytest.raises(DecodeError) as caught:
                decode_pod(form)
            assert str(caught.value).startswith(
                "Pod default/x: spec.containers[1].resources.limits['nvidia.com/gpu']: "
            )

    def test_true_is_no_quantity_even_after_one(self) -> None:
        containers({"name": "c", "resources": {"requests": {"example.com/x": 1}}})
        containers({"name": "c", "resources": {"requests": {"example.com/x": "1"}}})
        with pytest.raises(DecodeError):
            decode_pod(pod(spec={"containers": [{"name": "c", "resources": {"requests": {"example.com/x": True}}}]}))

    def test_equal_resources_share_one_mapping(self) -> None:
        model = {"name": "c", "resources": {"requests": {"cpu": "3", "memory": "5Gi"}}}
        first, second = containers(model), containers(model)
        assert first.containers[0].requests is second.containers[0].requests

    def test_what_is_shared_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fields, "_CACHED", 10)
        monkeypatch.setattr(fields, "_cache", {})
        for number in range(100):
            assert fields.amounts({"cpu": str(number)}) == {"cpu": number * 1000}
            assert len(fields._cache) <= 10


class TestResize:
    """While a resize is not through, kube-scheduler counts the greatest of what is asked, granted and in use."""

    @staticmethod
    def resized(asked: str, granted: str, in_use: str, *, node: str = "n", conditions: Any = ()) -> int:
        raw = pod(
            spec={"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": asked}}}]},
            status={
                "conditions": list(conditions),
                "containerStatuses": [
                    {
                        "name": "c",
                        "allocatedResources": {"cpu": granted},
                        "resources": {"requests": {"cpu": in_use}},
                    }
                ],
            },
        )
        return both_ways(raw).containers[0].requests["cpu"]

    @pytest.mark.parametrize(
        ("asked", "granted", "in_use", "counted"),
        [("1", "1", "1", 1000), ("1", "2", "1", 2000), ("1", "1", "3", 3000), ("4", "1", "1", 4000)],
    )
    def test_the_greatest_counts(self, asked: str, granted: str, in_use: str, counted: int) -> None:
        assert self.resized(asked, granted, in_use) == counted

    def test_an_infeasible_wish_does_not_count(self) -> None:
        condition = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
        assert self.resized("64", "2", "1", conditions=[condition]) == 2000

    def test_a_deferred_wish_counts(self) -> None:
        condition = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
        assert self.resized("64", "2", "1", conditions=[condition]) == 64000

    def test_nothing_is_granted_before_a_node(self) -> None:
        assert self.resized("1", "2", "2", node="") == 1000

    def test_a_status_without_amounts_changes_nothing(self) -> None:
        raw = pod(
            spec={"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            status={
                "containerStatuses": [{"name": "c"}],
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
            },
        )
        assert both_ways(raw).containers[0].requests == {"cpu": 1000}

    def test_sidecars_too(self) -> None:
        raw = pod(
            spec={"nodeName": "n", "initContainers": [{"name": "s", "resources": {"requests": {"memory": "1Gi"}}}]},
            status={"initContainerStatuses": [{"name": "s", "allocatedResources": {"memory": "2Gi"}}]},
        )
        assert both_ways(raw).init_containers[0].requests == {"memory": 2 * GI}


class TestHostPorts:
    def test_the_host_network_takes_container_ports(self) -> None:
        ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81, "hostIP": "10.0.0.1"}]
        facts = containers({"name": "c", "ports": ports}, hostNetwork=True)
        assert facts.host_network
        assert facts.containers[0].host_ports == (HostPort("TCP", "", 80), HostPort("TCP", "10.0.0.1", 81))

    def test_otherwise_only_host_ports_count(self) -> None:
        assert containers({"name": "c", "ports": [{"containerPort": 80, "hostPort": 0}]}).containers[0].host_ports == ()


def affinity(kind: str, term: Object, labels: dict[str, str] | None = None) -> tuple[PodAffinityTerm, ...]:
    raw = pod(
        namespace="mine",
        metadata={"name": "p", "namespace": "mine", "uid": "u", "labels": labels or {}},
        spec={
            "affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", **term}]}}
        },
    )
    facts = both_ways(raw)
    return facts.pod_affinity if kind == "podAffinity" else facts.pod_anti_affinity


class TestAffinity:
    def test_node_terms(self) -> None:
        rules = {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
                    {},
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"anything": "goes"}}],
        }
        assert containers({"name": "c"}, affinity={"nodeAffinity": rules}).node_affinity == (
            NodeSelectorTerm(labels=(Requirement("zone", "In", ("a", "b")),)),
            NodeSelectorTerm(fields=(Requirement("metadata.name", "In", ("n1",)),)),
            NodeSelectorTerm(),
        )

    def test_no_required_node_terms_are_none_and_an_empty_list_is_not(self) -> None:
        assert containers({"name": "c"}, affinity={"nodeAffinity": {}}).node_affinity is None
        empty: Object = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
        assert containers({"name": "c"}, affinity={"nodeAffinity": empty}).node_affinity == ()

    @pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
    def test_a_plain_term_is_about_our_own_namespace(self, kind: str) -> None:
        term = {
            "labelSelector": {
                "matchLabels": {"b": "2", "a": "1"},
                "matchExpressions": [{"key": "c", "operator": "Exists"}],
            }
        }
        selector = (Requirement("a", "In", ("1",)), Requirement("b", "In", ("2",)), Requirement("c", "Exists"))
        assert affinity(kind, term) == (PodAffinityTerm("zone", selector, ("mine",), None),)

    def test_no_selector_and_an_empty_one_differ(self) -> None:
        assert affinity("podAffinity", {})[0].selector is None
        assert affinity("podAffinity", {"labelSelector": {}})[0].selector == ()

    def test_namespaces_are_resolved(self) -> None:
        named = affinity("podAffinity", {"namespaces": ["x", "y"]})[0]
        assert (named.namespaces, named.namespace_selector) == (("x", "y"), None)
        all_of_them = affinity("podAffinity", {"namespaceSelector": {}})[0]
        assert (all_of_them.namespaces, all_of_them.namespace_selector) == ((), ())

    def test_label_keys_are_folded_in(self) -> None:
        term = {
            "labelSelector": {"matchLabels": {"app": "x"}},
            "matchLabelKeys": ["version", "absent"],
            "mismatchLabelKeys": ["tenant"],
        }
        (folded,) = affinity("podAffinity", term, {"version": "7", "tenant": "me"})
        assert folded.selector == (
            Requirement("app", "In", ("x",)),
            Requirement("version", "In", ("7",)),
            Requirement("tenant", "NotIn", ("me",)),
        )

    def test_label_keys_that_the_api_server_folded_in_are_not_doubled(self) -> None:
        term = {
            "labelSelector": {"matchExpressions": [{"key": "version", "operator": "In", "values": ["7"]}]},
            "matchLabelKeys": ["version"],
        }
        assert affinity("podAffinity", term, {"version": "7"})[0].selector == (Requirement("version", "In", ("7",)),)

    def test_label_keys_without_a_selector_match_nothing_still(self) -> None:
        assert affinity("podAffinity", {"matchLabelKeys": ["version"]}, {"version": "7"})[0].selector is None


class TestErrors:
    @pytest.mark.parametrize(
        ("raw", "text"),
        [
            (pod(spec={"containers": [{"image": "x"}]}), "Pod default/p: spec.containers[0].name: Field required"),
            (pod(spec={"nodeSelector": {"a/b": 3}}), "Pod default/p: spec.nodeSelector['a/b']: "),
            (pod(spec={"priority": "high"}), "Pod default/p: spec.priority: "),
            (pod(spec={"tolerations": {}}), "Pod default/p: spec.tolerations: "),
            (
                pod(metadata={"name": "p", "namespace": "default", "creationTimestamp": "yesterday"}),
                "Pod default/p: metadata.creationTimestamp: 'yesterday' is not a time",
            ),
            (
                pod(metadata={"name": "p", "deletionTimestamp": 12}),
                "Pod default/p: metadata.deletionTimestamp: 12 is not a time",
            ),
            ({"metadata": {"namespace": "x"}}, "Pod x: metadata.name: Field required"),
            ({}, "Pod: metadata: Field required"),
        ],
    )
    def test_object_field_and_problem_are_named(self, raw: Object, text: str) -> None:
        for form in (raw, json.dumps(raw)):
            with pytest.raises(DecodeError) as caught:
                decode_pod(form)
            assert str(caught.value).startswith(text)

    @pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", "true"])
    def test_what_is_no_object_at_all(self, raw: bytes | str) -> None:
        with pytest.raises(DecodeError, match="Pod"):
            decode_pod(raw)

    def test_a_term_without_topology_key(self) -> None:
        rules: Object = {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}}]}
        with pytest.raises(DecodeError, match=r"podAffinity\.required.*\[0\]\.topologyKey: Field required"):
            decode_pod(pod(spec={"affinity": {"podAffinity": rules}}))


def test_times_may_be_datetimes_as_yaml_readers_make_them() -> None:
    raw = pod(metadata={"name": "p", "creationTimestamp": datetime(2026, 1, 2, 3, 4, 5)})
    assert (
        decode_pod(raw).created_ms
        == decode_pod(pod(metadata={"name": "p", "creationTimestamp": "2026-01-02T05:04:05+02:00"})).created_ms
    )


def test_only_a_new_resource_version_is_no_change() -> None:
    facts = decode_pod(pod())
    assert decode.PODS.same(facts, replace(facts, resource_version="2"))
    changes: list[dict[str, Any]] = [
        {"phase": "Running"},
        {"labels": {"a": "b"}},
        {"node_name": "n"},
        {"gates": ("x",)},
    ]
    assert not any(decode.PODS.same(facts, replace(facts, **change)) for change in changes)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (None, False),
        ([], False),
        ([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}], False),
        ([{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}], False),
        ([{"name": "OTHER", "valueFrom": {"fieldRef": {"fieldPath": DEVICES_PATH}}}], False),
        ([{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}], False),
        ([{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": DEVICES_PATH}}}], True),
        (
            [
                {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": DEVICES_PATH}}},
                {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            ],
            False,
        ),
    ],
)
def test_whether_a_container_learns_its_devices(env: list[Object] | None, expected: bool) -> None:
    facts = containers({"name": "main", "env": env})
    assert facts.containers[0].gets_devices is expected
