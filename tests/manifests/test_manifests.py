"""The shipped files agree with each other and with the code: names, ports, paths, words and rights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from extender_api import __version__, extender_routes, settings_sources
from extender_api.cluster import paths
from extender_api.cluster.binding import BIND_S
from extender_api.cluster.object_kinds import OBJECT_KINDS
from extender_api.doctor import shipped
from extender_api.queue_objects.file import read_file
from extender_api.settings import Settings, parse_address
from queues.tree import Tree
from tests.controlplane.build import KUBERNETES_VERSION
from topology import vocabulary

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
MODES = ["base", "advise"]
NAMESPACES = {"base": "tangram-system", "advise": "tangram-advise"}
LEASES = {"base": "tangram", "advise": "tangram-advise"}

Document = dict[str, Any]
OURS = {
    "name": "ours",
    "expression": f"object.spec.?schedulerName.orValue('') == '{vocabulary.DEFAULT_SCHEDULER_NAME}'",
}


def documents(path: Path) -> list[Document]:
    return [document for document in yaml.safe_load_all(path.read_text("utf-8")) if document]


def kustomization(mode: str) -> Document:
    (document,) = documents(MANIFESTS / mode / "kustomization.yaml")
    return document


def objects(mode: str) -> list[Document]:
    return [document for file in kustomization(mode)["resources"] for document in documents(MANIFESTS / mode / file)]


def one(mode: str, kind: str, name: str | None = None) -> Document:
    (found,) = (
        document
        for document in objects(mode)
        if document["kind"] == kind and name in (None, document["metadata"]["name"])
    )
    return found


def settings(mode: str) -> Settings:
    return settings_sources.load(MANIFESTS / mode / "config" / "tangram.yaml")


def scheduler(mode: str) -> Document:
    (document,) = documents(MANIFESTS / mode / "config" / "scheduler.yaml")
    return document


def pod_spec(mode: str) -> Document:
    spec: Document = one(mode, "Deployment")["spec"]["template"]["spec"]
    return spec


def container(mode: str, name: str) -> Document:
    found: Document
    (found,) = (entry for entry in pod_spec(mode)["containers"] if entry["name"] == name)
    return found


def texts(value: Any) -> Iterator[str]:
    """All texts in a document."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


# -- kustomizations --------------------------------------------------------------------------------------------------
def test_every_file_is_used() -> None:
    used = set()
    for path in MANIFESTS.rglob("kustomization.yaml"):
        (document,) = documents(path)
        used.add(path)
        names = [
            *document["resources"],
            *(file for generator in document.get("configMapGenerator", ()) for file in generator["files"]),
            *(patch["path"] for patch in document.get("patches", ())),
        ]
        used |= {(path.parent / name).resolve() for name in names}

    examples = MANIFESTS / "examples"
    files = {path for path in MANIFESTS.rglob("*") if path.is_file() and not path.is_relative_to(examples)}
    assert files == {path for path in used if path.is_file()}
    assert all(path.exists() for path in used)


@pytest.mark.parametrize("mode", MODES)
def test_everything_is_in_its_namespace(mode: str) -> None:
    cluster_wide = {"Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "PriorityClass"} | {
        kind for kind in (document["kind"] for document in objects(mode)) if "AdmissionPolicy" in kind
    }
    for document in objects(mode):
        namespace = document["metadata"].get("namespace")
        if document["kind"] in cluster_wide:
            assert namespace is None
        elif document["metadata"]["name"].endswith("authentication-reader"):
            assert namespace == "kube-system"
        else:
            assert namespace == NAMESPACES[mode]
    assert one(mode, "Namespace")["metadata"]["name"] == NAMESPACES[mode]
    assert [entry["namespace"] for entry in kustomization(mode)["configMapGenerator"]] == [NAMESPACES[mode]]


def test_the_two_installations_do_not_meet() -> None:
    def keys(mode: str) -> set[tuple[str, str, str]]:
        return {
            (document["kind"], document["metadata"].get("namespace", ""), document["metadata"]["name"])
            for document in objects(mode)
        }

    assert not keys("base") & keys("advise")


@pytest.mark.parametrize("mode", MODES)
def test_images_are_those_of_this_version(mode: str) -> None:
    tags = {image["name"]: image["newTag"] for image in kustomization(mode)["images"]}
    assert tags == {"tangram": __version__, "registry.k8s.io/kube-scheduler": KUBERNETES_VERSION}
    spec = pod_spec(mode)
    assert {entry["image"] for entry in [*spec["containers"], *spec["initContainers"]]} == set(tags)


# -- the pair of processes -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", MODES)
def test_kube_scheduler_calls_where_tangram_listens(mode: str) -> None:
    address = parse_address(settings(mode).extender.address)
    assert settings(mode).extender == Settings().extender
    path = extender_routes.PLAN if mode == "base" else extender_routes.ADVISE
    for entry in scheduler(mode)["extenders"]:
        url = urlsplit(entry["urlPrefix"])
        assert (url.scheme, url.hostname, url.port, url.path) == ("http", address.host, address.port, path)
        assert entry["nodeCacheCapable"] is True
        assert entry["ignorable"] is False
        for key, verb in entry.items():
            if key.endswith("Verb"):
                assert key == f"{verb}Verb"


def test_the_base_has_an_entry_for_decisions_and_one_for_binds() -> None:
    decide, bind = scheduler("base")["extenders"]
    assert (decide["filterVerb"], decide["prioritizeVerb"], decide["httpTimeout"]) == ("filter", "prioritize", "3s")
    assert (bind["bindVerb"], bind["httpTimeout"]) == ("bind", "120s")
    assert not {"bindVerb", "preemptVerb"} & set(decide)
    assert not {"filterVerb", "prioritizeVerb", "preemptVerb", "weight"} & set(bind)
    (profile,) = scheduler("base")["profiles"]
    assert profile["schedulerName"] == settings("base").scheduler_name == vocabulary.DEFAULT_SCHEDULER_NAME
    assert profile["plugins"]["postFilter"]["disabled"] == [{"name": "DefaultPreemption"}]


def test_preempt_is_there_for_whoever_takes_the_comment_away() -> None:
    text = (MANIFESTS / "base" / "config" / "scheduler.yaml").read_text("utf-8")
    decide = yaml.safe_load(text.replace("# preemptVerb:", "preemptVerb:"))["extenders"][0]
    assert decide["preemptVerb"] == "preempt"


def test_advise_mode_binds_nothing_and_plans_nobody() -> None:
    (entry,) = scheduler("advise")["extenders"]
    assert set(entry) & {"filterVerb", "prioritizeVerb", "preemptVerb", "bindVerb"} == {"filterVerb", "prioritizeVerb"}
    names = {profile["schedulerName"] for profile in scheduler("advise")["profiles"]}
    assert names == {"tangram-advise"}
    assert settings("advise").scheduler_name not in {*names, vocabulary.DEFAULT_SCHEDULER_NAME, "default-scheduler"}


@pytest.mark.parametrize("mode", MODES)
def test_all_speak_of_one_lease(mode: str) -> None:
    place = (NAMESPACES[mode], LEASES[mode])
    election = scheduler(mode)["leaderElection"]
    assert election["leaderElect"] is True
    assert (election["resourceNamespace"], election["resourceName"]) == place
    lease = settings(mode).lease
    assert (lease.mode, lease.namespace, lease.name) == ("follow", *place)
    for document in objects(mode):
        for rule in document.get("rules", ()):
            if "leases" in rule["resources"]:
                assert document["metadata"]["namespace"] == place[0]
                assert rule["verbs"] == ["create"] or rule["resourceNames"] == [place[1]]


@pytest.mark.parametrize("mode", MODES)
def test_ports_and_probes(mode: str) -> None:
    tangram, kube_scheduler = container(mode, "tangram"), container(mode, "kube-scheduler")
    ops = parse_address(settings(mode).ops.address)
    assert ops.host == "0.0.0.0"
    assert tangram["ports"] == [{"name": "ops", "containerPort": ops.port}]
    assert one(mode, "Service")["spec"]["ports"] == [{"name": "ops", "port": ops.port, "targetPort": "ops"}]
    assert ops.port == parse_address(Settings().ops.address).port
    probes = [tangram[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
    assert probes == [{"path": path, "port": "ops"} for path in ("/healthz", "/healthz", "/readyz")]
    assert {kube_scheduler[f"{kind}Probe"]["httpGet"]["scheme"] for kind in ("liveness", "readiness")} == {"HTTPS"}
    assert [port["name"] for port in kube_scheduler["ports"]] == ["scheduler"]


@pytest.mark.parametrize("mode", MODES)
def test_files_are_mounted_where_they_are_read(mode: str) -> None:
    (generator,) = kustomization(mode)["configMapGenerator"]
    (volume,) = (volume for volume in pod_spec(mode)["volumes"] if volume["name"] == "config")
    assert volume["configMap"]["name"] == generator["name"]
    for name, file in (("tangram", "tangram.yaml"), ("kube-scheduler", "scheduler.yaml")):
        assert f"config/{file}" in generator["files"]
        (mount,) = (mount for mount in container(mode, name)["volumeMounts"] if mount["name"] == "config")
        assert f"--config={mount['mountPath']}/{file}" in container(mode, name)["args"]


@pytest.mark.parametrize("mode", MODES)
def test_nothing_can_be_written_but_the_kernels(mode: str) -> None:
    spec = pod_spec(mode)
    assert spec["securityContext"]["runAsNonRoot"] is True
    for entry in [*spec["initContainers"], *spec["containers"]]:
        assert entry["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= set(entry["resources"]["requests"])
        assert "memory" in entry["resources"]["limits"]
    emptied = {volume["name"] for volume in spec["volumes"] if "emptyDir" in volume}
    assert {mount["name"] for mount in container(mode, "tangram")["volumeMounts"]} == {"config", *emptied}


@pytest.mark.parametrize("mode", MODES)
def test_a_pod_that_ends_may_finish_its_binds(mode: str) -> None:
    """First accepted binds are waited for, then answers on their way, each for as long as the setting says."""
    drain_s = settings(mode).extender.drain_s
    assert drain_s > BIND_S
    assert pod_spec(mode).get("terminationGracePeriodSeconds", 30) > 2 * drain_s + 5


def test_two_replicas_apart_and_one_always_there() -> None:
    deployment = one("base", "Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"].items()
    assert deployment["replicas"] == 2
    (term,) = pod_spec("base")["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    selectors = [
        deployment["selector"]["matchLabels"],
        term["podAffinityTerm"]["labelSelector"]["matchLabels"],
        one("base", "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        one("base", "Service")["spec"]["selector"],
    ]
    assert all(selector and selector.items() <= labels for selector in selectors)
    assert one("base", "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


# -- rights ------------------------------------------------------------------------------------------------------------
def test_tangram_may_do_just_this() -> None:
    granted = {
        (verb, group, resource)
        for kind in ("ClusterRole", "Role")
        for rule in one("base", kind, "tangram")["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    reads = {("list", "", kind) for kind in ("nodes", "namespaces", "pods")}
    reads |= {("watch", "", kind) for kind in ("nodes", "namespaces", "pods")}
    reads |= {(verb, "coordination.k8s.io", "leases") for verb in ("list", "watch")}
    followed = {(kind.group, kind.plural) for kind in OBJECT_KINDS}
    collections = (paths.QUEUES, paths.KAI_QUEUES, paths.TOPOLOGIES, paths.KAI_TOPOLOGIES)
    followed |= {(path.split("/")[2], path.rpartition("/")[2]) for path in collections}
    reads |= {(verb, *kind) for kind in followed for verb in ("list", "watch")}
    writes = {
        ("patch", "", "pods"),
        ("patch", "", "pods/status"),
        ("create", "", "pods/binding"),
        ("create", "", "pods/eviction"),
        ("create", "events.k8s.io", "events"),
        ("patch", vocabulary.API_GROUP, "queues/status"),
    }
    usage = {(verb, "", "configmaps") for verb in ("get", "create", "patch")}
    assert granted == reads | writes | usage | {("get", "", "pods")}


def test_one_config_map_may_be_read_and_written_and_no_other() -> None:
    (role,) = (document for document in objects("base") if document["kind"] == "Role" and "tangram" in names(document))
    found = [rule for rule in role["rules"] if "configmaps" in rule["resources"]]
    assert role["metadata"]["namespace"] == settings("base").usage.namespace
    assert all(
        rule["verbs"] == ["create"] or rule["resourceNames"] == [settings("base").usage.config_map] for rule in found
    )
    assert {verb for rule in found for verb in rule["verbs"]} == {"create", "get", "patch"}


def names(document: Document) -> set[str]:
    return {document["metadata"]["name"]}


@pytest.mark.parametrize("mode", MODES)
def test_no_role_is_wide_open(mode: str) -> None:
    for document in objects(mode):
        for rule in document.get("rules", ()):
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert "secrets" not in rule["resources"]
            assert "configmaps" not in rule["resources"] or (document["kind"], mode) == ("Role", "base")
        for subject in document.get("subjects", ()):
            assert subject == {"kind": "ServiceAccount", "name": "tangram", "namespace": NAMESPACES[mode]}
    assert pod_spec(mode)["serviceAccountName"] == one(mode, "ServiceAccount")["metadata"]["name"] == "tangram"


def test_advise_mode_only_reads() -> None:
    verbs = {verb for rule in one("advise", "ClusterRole")["rules"] for verb in rule["verbs"]}
    assert verbs == {"list", "watch"}


# -- queues ------------------------------------------------------------------------------------------------------------
def test_the_priority_classes_are_those_that_the_code_knows() -> None:
    found = {
        document["metadata"]["name"]: document for document in objects("base") if document["kind"] == "PriorityClass"
    }
    assert {name: document["value"] for name, document in found.items()} == {
        "tangram-train": 50,
        "tangram-build-preemptible": 75,
        "tangram-build": 100,
        "tangram-inference": 125,
    }
    assert set(found) <= set(vocabulary.PRIORITY_CLASSES)
    for document in found.values():
        assert not document.get("globalDefault")
        preemptible = document["value"] < vocabulary.NON_PREEMPTIBLE_FROM
        assert ("Preemptible" in document["description"]) is preemptible
        assert ("Never evicted" in document["description"]) is not preemptible


def test_the_example_of_queues_is_sound() -> None:
    path = MANIFESTS / "examples" / "queues.yaml"
    content = read_file(path.read_text("utf-8"), str(path))
    tree = Tree(content.queues)
    assert (content.problems, tree.findings) == ((), ())
    assert tree.roots == ("product", "research")
    assert {queue.name for queue in tree.leaves} == {"serving", "speech", "vision"}
    assert sum(tree.queues[name].spec.gpu.quota for name in tree.roots) == 16_000, "as its first line says"


# -- policies ----------------------------------------------------------------------------------------------------------
def test_the_gate_policy_uses_the_words_of_the_code() -> None:
    policy = one("base", "MutatingAdmissionPolicy", shipped.GATE)["spec"]
    quoted = set(re.findall(r"'([a-z.]+/[a-z-]+|gpu-[a-z-]+)'", "\n".join(texts(policy))))
    assert quoted == {vocabulary.GATE}
    assert policy["matchConditions"] == [OURS]
    assert policy["failurePolicy"] == "Fail"


def test_the_devices_policy_uses_the_words_of_the_code() -> None:
    policy = one("base", "MutatingAdmissionPolicy", shipped.DEVICES)["spec"]
    whole = "\n".join(texts(policy))
    quoted = set(re.findall(r"'([a-z.]+(?:/[a-z-]+)|gpu-[a-z-]+)'", whole))
    spellings = {*vocabulary.GPU_FRACTION.spellings, *vocabulary.GPU_MEMORY.spellings}
    container_words = set(vocabulary.GPU_FRACTION_CONTAINER.spellings)
    assert quoted == {vocabulary.GPU_UUIDS, *spellings, *container_words}
    ours, sharing = policy["matchConditions"]
    assert ours == OURS
    assert set(re.findall(r"'([^']+)'", sharing["expression"])) == spellings
    assert f"name: '{vocabulary.VISIBLE_DEVICES_ENV}'" in whole
    assert f"metadata.annotations['{vocabulary.GPU_UUIDS}']" in whole
    assert policy["failurePolicy"] == "Fail"


def test_advise_mode_has_no_policies() -> None:
    assert not [document for document in objects("advise") if "AdmissionPolicy" in document["kind"]]


def test_the_protection_policy_names_both_annotations_everywhere() -> None:
    policy = one("base", "ValidatingAdmissionPolicy")["spec"]
    *about_annotations, about_labels = policy["validations"]
    assert len(about_annotations) == 2
    for spelling in (*vocabulary.QUEUE.spellings, *vocabulary.PREEMPTIBILITY.spellings):
        assert f"'{spelling}'" in about_labels["expression"]
    for validation in about_annotations:
        for text in (validation["expression"], validation["message"]):
            assert vocabulary.ALLOCATION in text
            assert vocabulary.GPU_UUIDS in text
    (rule,) = policy["matchConstraints"]["resourceRules"]
    assert "pods/status" in rule["resources"], "annotations can be changed there too"
    assert not {"pods/binding", "bindings", "*", "pods/*"} & set(rule["resources"])


@pytest.mark.parametrize("kind", ["MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"])
def test_bindings_name_their_policy(kind: str) -> None:
    policies = {document["metadata"]["name"] for document in objects("base") if document["kind"] == kind}
    assert policies == set(shipped.MUTATING if kind.startswith("Mutating") else [shipped.PROTECTION])
    for name in policies:
        assert one("base", f"{kind}Binding", name)["spec"]["policyName"] == name


def test_the_provider_overlay_widens_whose_pods_are_ours_and_nothing_else() -> None:
    for name in shipped.MUTATING:
        plain, widened = (form["spec"] for form in shipped.mutating_policy(name))
        assert plain == one("base", "MutatingAdmissionPolicy", name)["spec"]
        ours, *others = widened["matchConditions"]
        assert ours["expression"].startswith(OURS["expression"])
        assert "'offloading.liqo.io/origin'" in ours["expression"]
        assert others == plain["matchConditions"][1:]
        added = widened["mutations"][: -len(plain["mutations"])]
        assert widened["mutations"][len(added) :] == plain["mutations"]
        assert len(added) == (1 if name == shipped.GATE else 0)
        assert all(f"schedulerName: '{vocabulary.DEFAULT_SCHEDULER_NAME}'" in "".join(texts(one)) for one in added)
