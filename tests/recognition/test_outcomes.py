"""Cases that users of other schedulers ran into, contradictory and malformed words, and that nothing ever raises."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.gang_spec import Slice
from scheduler.membership import Membership
from scheduler.object_facts import ObjectFacts
from scheduler.pod import Owner, PodFacts
from scheduler.recognition import recognise
from scheduler.recognition.owners import KINDS
from scheduler.recognition.references import REFERENCES
from tests.recognition.world import World, group, load, names, root, tree
from topology import vocabulary

LAYERS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
SLICE = "kueue.x-k8s.io/podset-slice-required-topology"
SIZE = "kueue.x-k8s.io/podset-slice-size"


def said(name: str, world: World, **annotations: str) -> Membership:
    """Of a pod with more annotations; `__` stands for `/`."""
    one = world.pods[name]
    return recognise(replace(one, annotations={**one.annotations, **annotations}), world)


def job(status: dict[str, int] | None = None, asked: str = "4", **spec: Any) -> Membership:
    world = load("job")
    owner = replace(
        world.objects[0],
        annotations={"kai.scheduler/batch-min-member": asked},
        spec={**world.objects[0].spec, **spec},
        status=status or {},
    )
    return World([owner], world.pods).of("sweep-0-x7k2p")


class TestOutcomes:
    def test_a_ray_cluster_needs_all_hosts_of_its_replicas(self) -> None:
        # T6: head 1 and 2 replicas × 3 hosts
        assert sum(leaf.minimum for leaf in root(load("rayjob").of("tune-6m9xq-head-d7wrk")).leaves()) == 7

    def test_each_worker_group_has_its_own_minimum(self) -> None:
        # T7: a flat minimum of 3 would start the head and two of the small group
        found = root(load("raycluster").of("serve-head-4xk2p"))
        assert tree(found) == {"headgroup": 1, "small": 1, "large": 1}
        assert found.min_children is None

    @pytest.mark.parametrize(("succeeded", "minimum"), [(0, 4), (1, 4), (4, 1), (5, 0)])
    def test_the_tail_of_a_job_in_a_jobset_starts(self, succeeded: int, minimum: int) -> None:
        # T8: parallelism 4, completions 5
        world = load("jobset")
        objects = [
            replace(found, status={"succeeded": succeeded}) if found.name == "train-workers-1" else found
            for found in world.objects
        ]
        found = World(objects, world.pods).of("train-workers-1-0-x7k2p")
        assert group(found, "workers-1").minimum == minimum
        assert group(found, "workers-0").minimum == 4

    @pytest.mark.parametrize(("succeeded", "minimum"), [(0, 4), (2, 4), (3, 3), (6, 0), (9, 0)])
    def test_the_tail_of_a_job_starts(self, succeeded: int, minimum: int) -> None:
        assert root(job({"succeeded": succeeded})).minimum == minimum

    def test_a_job_without_completions_waits_for_nobody_new_once_one_has_succeeded(self) -> None:
        assert root(job(completions=None)).minimum == 4
        assert root(job({"succeeded": 1, "active": 2}, completions=None)).minimum == 2

    def test_one_of_two_subgroups_is_enough(self) -> None:
        # T9
        spec = {"minSubGroup": 1, "subGroups": [{"name": "a", "minMember": 2}, {"name": "b", "minMember": 1}]}
        world = World([ObjectFacts("scheduling.run.ai/v2alpha2", "PodGroup", "team-a", "g", spec=spec)])
        labels = {"kai.scheduler/subgroup-name": "b"}
        found = recognise(PodFacts("u", "team-a", "p", labels=labels, annotations={"pod-group-name": "g"}), world)
        assert (root(found).min_children, tree(root(found)), found.leaf) == (1, {"a": 2, "b": 1}, "b")

    def test_each_leader_is_with_its_own_workers(self) -> None:
        # T10
        world = load("leaderworkerset")
        gangs = {name: world.of(name).gang for name in world.pods}
        assert len(set(gangs.values())) == 3
        assert all(gangs[f"vllm-{place}"] == gangs[f"vllm-{place}-1"] for place in range(3))

    def test_restart_attempts_never_share_a_gang(self) -> None:
        world = load("jobset")
        one = world.pods["train-driver-0-0-x7k2p"]
        again = replace(one, labels={**one.labels, "jobset.sigs.k8s.io/restart-attempt": "1"})
        assert recognise(one, world).gang != recognise(again, world).gang

    def test_finished_replicas_are_not_waited_for(self) -> None:
        assert group(load("tfjob").of("tf-chief-0"), "worker").minimum == 1


class TestMinimaThatAreAskedFor:
    def test_more_than_can_run_at_once(self) -> None:
        found = job(asked="9")
        assert root(found).minimum == 4
        assert "MIN_MEMBER_TOO_LARGE" in found.warnings

    @pytest.mark.parametrize("asked", ["0", "all", "-1", "1.5", "9" * 40])
    def test_no_number(self, asked: str) -> None:
        found = job(asked=asked)
        assert found.gang is None
        assert "MIN_MEMBER_UNREADABLE" in found.warnings

    def test_partial_start_of_kueue(self) -> None:
        world = load("job-plain")
        owner = replace(world.objects[0], annotations={"kueue.x-k8s.io/job-min-parallelism": "2"})
        assert root(World([owner], world.pods).of("plain-0-x7k2p")).minimum == 2

    def test_near_pods_of_a_job_are_an_elastic_gang(self) -> None:
        found = said("plain-0-x7k2p", load("job-plain"), **{"kueue.x-k8s.io/podset-required-topology": "rack"})
        assert root(found).minimum == 1
        assert root(found).nearness is not None

    def test_of_a_jobset_and_of_a_job_in_it(self) -> None:
        world = load("jobset")
        jobset = world.objects[0]
        templates = json.loads(json.dumps(jobset.spec["replicatedJobs"]))
        templates[1]["template"]["metadata"]["annotations"]["kai.scheduler/batch-min-member"] = "2"
        asking = replace(
            jobset, annotations={"kai.scheduler/batch-min-member": "1"}, spec={"replicatedJobs": templates}
        )
        found = World([asking, *world.objects[1:]], world.pods).of("train-driver-0-0-x7k2p")
        assert root(found).min_children == 1
        assert group(found, "workers-0").minimum == 2
        assert group(found, "workers-1").minimum == 1

    def test_of_a_training_job_goes_to_the_master_first(self) -> None:
        run = {"runPolicy": {"schedulingPolicy": {"minAvailable": 5}}}
        found = load("tfjob").with_spec("TFJob", run, status={}).of("tf-chief-0")
        assert tree(root(found)) == {"ps": 2, "chief": 1, "worker": 2}
        run["runPolicy"]["schedulingPolicy"]["minAvailable"] = 99
        assert "MIN_MEMBER_TOO_LARGE" in load("tfjob").with_spec("TFJob", run).of("tf-chief-0").warnings

    def test_a_pytorch_job_waits_for_the_workers_it_needs(self) -> None:
        assert group(load("pytorchjob-elastic").of("elastic-worker-0"), "worker").minimum == 2

    def test_xgboost_needs_both(self) -> None:
        spec = {"xgbReplicaSpecs": {"Worker": {"replicas": 2}}}
        assert "master" in load("xgboostjob").with_spec("XGBoostJob", spec).of("xgb-worker-1").problem

    def test_a_jobset_of_absurd_size_is_refused(self) -> None:
        spec = {"replicatedJobs": [{"name": "driver", "replicas": 2_000_000_000, "template": {}}]}
        assert "10000" in load("jobset").with_spec("JobSet", spec).of("train-driver-0-0-x7k2p").problem

    def test_a_fast_admitted_group_starts_pod_by_pod(self) -> None:
        found = said("grp-0", load("kueue"), **{"kueue.x-k8s.io/pod-group-fast-admission": "true"})
        assert root(found).minimum == 1

    @pytest.mark.parametrize(
        ("manifest", "name", "key"),
        [
            ("kueue", "grp-0", "kueue.x-k8s.io/pod-group-total-count"),
            ("koordinator", "gang-a-0", "gang.scheduling.koordinator.sh/min-available"),
            ("yunikorn", "app-driver", "yunikorn.apache.org/task-groups"),
        ],
    )
    @pytest.mark.parametrize("written", ["many", "[]", "{", "0"])
    def test_unreadable_sizes_are_a_problem(self, manifest: str, name: str, key: str, written: str) -> None:
        found = said(name, load(manifest), **{key: written})
        assert key in found.problem
        assert found.gang is not None
        assert found.spec is None

    def test_members_of_an_application_wait_for_the_list_of_its_groups(self) -> None:
        found = load("yunikorn").of("app-exec-1")
        assert found.leaf == "spark-executor"
        assert found.gang == load("yunikorn").of("app-driver").gang
        assert "task-groups" in found.missing

    def test_a_gang_of_gangs_is_passed_over(self) -> None:
        groups = {"gang.scheduling.koordinator.sh/groups": '["team-a/gang-a", "team-a/gang-b"]'}
        found = said("gang-a-0", load("koordinator"), **groups)
        assert "GANG_OF_GANGS" in found.warnings
        assert root(found).minimum == 2

    def test_more_replicated_jobs_than_there_are(self) -> None:
        world = load("jobset")
        asking = replace(world.objects[0], annotations={"kai.scheduler/batch-min-member": "5"})
        found = World([asking, *world.objects[1:]], world.pods).of("train-driver-0-0-x7k2p")
        assert root(found).min_children == 2
        assert "MIN_MEMBER_TOO_LARGE" in found.warnings

    def test_a_suspended_worker_group_needs_nobody(self) -> None:
        spec = {"workerGroupSpecs": [{"groupName": "small", "replicas": 3, "minReplicas": 2, "suspend": True}]}
        found = load("raycluster").with_spec("RayCluster", spec).of("serve-small-worker-9fqdm")
        assert tree(root(found)) == {"headgroup": 1, "small": 0}

    @pytest.mark.parametrize("twice", [["small", "small"], ["small", "headgroup"]])
    def test_worker_groups_of_one_name_are_refused(self, twice: list[str]) -> None:
        spec = {"workerGroupSpecs": [{"groupName": name, "replicas": 1} for name in twice]}
        assert twice[1] in load("raycluster").with_spec("RayCluster", spec).of("serve-small-worker-9fqdm").problem

    def test_too_many_segments_are_refused(self) -> None:
        template = {**load("leaderworkerset-segments").objects[0].spec["leaderWorkerTemplate"], "size": 1_000_000}
        world = load("leaderworkerset-segments").with_spec("LeaderWorkerSet", {"leaderWorkerTemplate": template})
        assert "10000" in world.of("seg-0-1").problem
        words = {"kai.scheduler/segment-size": "2", "kai.scheduler/segment-topology-required-placement": "rack"}
        specs = {"Worker": {"replicas": 1_000_000, "template": {"metadata": {"annotations": words}}}}
        assert "10000" in load("jaxjob").with_spec("JAXJob", {"jaxReplicaSpecs": specs}).of("jax-worker-0").problem

    def test_leaves_of_one_name_are_refused(self) -> None:
        templates = [{"name": "driver", "template": {}}] * 2
        found = load("jobset").with_spec("JobSet", {"replicatedJobs": templates}).of("train-driver-0-0-x7k2p")
        assert "driver-0" in found.problem

    def test_a_pod_that_fits_no_group_of_its_owner(self) -> None:
        world = load("raycluster")
        one = world.pods["serve-small-worker-9fqdm"]
        lost = replace(one, labels={**one.labels, "ray.io/group": "gone"})
        assert "'gone'" in recognise(lost, world).problem


class TestTopologyWords:
    def kueue(self, **annotations: str) -> Membership:
        return said("grp-0", load("kueue"), **annotations)

    def test_slices(self) -> None:
        assert root(self.kueue(**{SLICE: "rack", SIZE: "2"})).slices == (Slice(2, "rack"),)

    @pytest.mark.parametrize(
        ("level", "size"), [("topology", "size"), ("topologyLevel", "sliceSize"), ("topologyLevel", "size")]
    )
    def test_layers_in_both_spellings(self, level: str, size: str) -> None:
        layers = [{level: "block", size: 8}, {level: "rack", size: 4}]
        assert root(self.kueue(**{LAYERS: json.dumps(layers)})).slices == (Slice(8, "block"), Slice(4, "rack"))

    @pytest.mark.parametrize(
        "words",
        [
            {SLICE: "rack"},
            {SIZE: "2"},
            {SLICE: "rack", SIZE: "0"},
            {LAYERS: "{"},
            {LAYERS: "[]"},
            {LAYERS: '[{"topology": "rack"}]'},
            {LAYERS: '[{"topology": "rack", "size": true}]'},
            {LAYERS: '[{"topology": "block", "size": 8}, {"topology": "rack", "size": 3}]'},
            {LAYERS: json.dumps([{"topology": "rack", "size": 2}] * 4)},
        ],
    )
    def test_slices_that_cannot_be_read_are_a_problem(self, words: dict[str, str]) -> None:
        found = self.kueue(**words)
        assert "kueue.x-k8s.io/podset-slice" in found.problem
        assert root(found).slices == ()

    def test_both_forms_of_slices(self) -> None:
        found = self.kueue(**{SLICE: "rack", SIZE: "2", LAYERS: '[{"topology": "host", "size": 1}]'})
        assert root(found).slices == (Slice(1, "host"),)
        assert "SLICES_TWICE" in found.warnings

    def test_ours_and_kueues(self) -> None:
        found = self.kueue(**{"tangram.scheduler/topology-required-placement": "rack"})
        nearness = root(found).nearness
        assert nearness is not None
        assert nearness.required == "rack"
        assert "TOPOLOGY_TWICE" in found.warnings

    def test_required_and_preferred_of_kueue(self) -> None:
        found = self.kueue(**{"kueue.x-k8s.io/podset-preferred-topology": "rack"})
        nearness = root(found).nearness
        assert nearness is not None
        assert nearness.preferred == ""
        assert "TOPOLOGY_TWICE" in found.warnings

    def test_a_topology_without_a_level(self) -> None:
        found = said("old-0", load("old-coscheduling"), **{"kai.scheduler/topology": "fabric"})
        assert "TOPOLOGY_WITHOUT_LEVEL" in found.warnings

    @pytest.mark.parametrize("size", ["1", "21", "x"])
    def test_segments_of_a_size_that_cannot_be(self, size: str) -> None:
        found = self.pytorch(
            {"kai.scheduler/segment-size": size, "kai.scheduler/segment-topology-required-placement": "r"}
        )
        assert "SEGMENT_SIZE_WRONG" in found.warnings
        assert tree(root(found)) == {"master": 1, "worker": 12}

    def test_segments_without_a_level(self) -> None:
        assert "SEGMENT_WITHOUT_LEVEL" in self.pytorch({"kai.scheduler/segment-size": "4"}).warnings

    def test_workers_that_cannot_be_divided_beside_their_leader(self) -> None:
        world = load("leaderworkerset-excluded")
        template = {**world.objects[0].spec["leaderWorkerTemplate"], "size": 6}
        found = world.with_spec("LeaderWorkerSet", {"leaderWorkerTemplate": template}).of("excl-0-1")
        assert "SEGMENT_SIZE_WRONG" in found.warnings
        assert tree(root(found)) == {"leader": 1, "workers": 5}

    def test_podsets_of_one_group_are_near_each_other(self) -> None:
        words = {"kueue.x-k8s.io/podset-group-name": "both", "kueue.x-k8s.io/podset-required-topology": "rack"}
        template = {"metadata": {"annotations": words}}
        specs = {"Master": {"replicas": 1, "template": template}, "Worker": {"replicas": 2, "template": template}}
        found = load("xgboostjob").with_spec("XGBoostJob", {"xgbReplicaSpecs": specs}).of("xgb-worker-1")
        assert root(found).nearness is not None
        assert [child.nearness for child in root(found).children] == [None, None]
        three = {"tfReplicaSpecs": {**specs, "PS": {"replicas": 1}}}
        inner = root(load("tfjob").with_spec("TFJob", three).of("tf-ps-1"))
        assert tree(inner) == {"podsets both": {"master": 1, "worker": 0}, "ps": 1}
        assert inner.nearness is None

    def test_podset_groups_that_start_in_turn_stay_apart(self) -> None:
        world = load("trainjob")
        templates = json.loads(json.dumps(world.objects[1].spec["replicatedJobs"]))
        templates.append({"name": "extra", "template": {}})
        for entry in templates[:2]:
            words = {"kueue.x-k8s.io/podset-group-name": "both", "kueue.x-k8s.io/podset-required-topology": "rack"}
            entry["template"]["spec"]["template"]["metadata"] = {"annotations": words}
        found = world.with_spec("JobSet", {"replicatedJobs": templates}).of("llm-node-0-0-x7k2p")
        assert [child.name for child in root(found).children] == ["dataset-initializer", "node", "extra"]
        assert "PODSET_GROUP_SPLIT" in found.warnings

    def test_one_template_speaks_of_leader_and_workers(self) -> None:
        words = {"kueue.x-k8s.io/podset-required-topology": "rack"}
        template = {"size": 2, "workerTemplate": {"metadata": {"annotations": words}}}
        found = (
            load("leaderworkerset-ready").with_spec("LeaderWorkerSet", {"leaderWorkerTemplate": template}).of("ready-0")
        )
        assert root(found).nearness is not None
        assert tree(root(found)) == {"leader": 1, "workers": 1}

    def test_slices_over_several_jobs_are_a_problem(self) -> None:
        world = load("jobset-topology")
        templates = json.loads(json.dumps(world.objects[0].spec["replicatedJobs"]))
        templates[0]["template"]["spec"]["template"]["metadata"]["annotations"][SIZE] = "3"
        found = world.with_spec("JobSet", {"replicatedJobs": templates}).of("kueue-tas-slices-0-0-x7k2p")
        assert "do not divide" in found.problem

    def pytorch(self, words: dict[str, str]) -> Membership:
        world = load("pytorchjob")
        specs = json.loads(json.dumps(world.objects[0].spec["pytorchReplicaSpecs"]))
        specs["Worker"]["template"]["metadata"]["annotations"] = words
        return world.with_spec("PyTorchJob", {"pytorchReplicaSpecs": specs}).of("ddp-worker-0")


SPELLINGS = sorted(
    spelling for word in vars(vocabulary).values() if isinstance(word, vocabulary.Word) for spelling in word.spellings
)
VALUES = st.one_of(
    st.text("a/-. é٣", max_size=8),
    st.integers(-1, 9).map(str),
    st.sampled_from(["true", "[]", '[{"name": "g", "minMember": 1}]', '[{"topology": "r", "size": 2}]', "[" * 9000]),
    st.sampled_from(["g", "head", "worker", "driver"]),
)
WORDS = st.dictionaries(st.sampled_from(SPELLINGS), VALUES, max_size=6)
FIELDS = [
    *("minMember", "minSubGroup", "subGroups", "name", "parent", "topologyConstraint", "replicatedJobs", "replicas"),
    *("template", "metadata", "annotations", "spec", "parallelism", "completions", "workerGroupSpecs", "groupName"),
    *("numOfHosts", "minReplicas", "leaderWorkerTemplate", "size", "subGroupPolicy", "subGroupSize", "startupPolicy"),
    *("pytorchReplicaSpecs", "mpiReplicaSpecs", "Worker", "Master", "runPolicy", "schedulingPolicy", "minAvailable"),
    *("minTaskMember", "networkTopology", "podgroups", "gang", "minCount", "podGroups", "policy", "succeeded"),
    *("stalenessGracePeriod", "preemptibility", "schedulingConstraints", "topology", "key", "replicaStatuses"),
]
LEAF = (
    st.none() | st.booleans() | st.integers(-2, 12) | st.floats(allow_nan=False) | st.sampled_from(["g", "a", "", "5m"])
)


def nested(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    keys = st.sampled_from(FIELDS) | st.text("ab", max_size=3)
    return LEAF | st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5)


JSON = nested(nested(nested(LEAF)))
SECTION = st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5)
ALL_KINDS = sorted({*KINDS, *(kind for reference in REFERENCES for kind in reference.kinds)})


class TestNothingRaises:
    @given(labels=WORDS, annotations=WORDS, owners=WORDS, spec=SECTION, status=SECTION, kind=st.sampled_from(ALL_KINDS))
    def test_on_any_object(
        self,
        labels: dict[str, str],
        annotations: dict[str, str],
        owners: dict[str, str],
        spec: dict[str, Any],
        status: dict[str, Any],
        kind: tuple[str, str],
    ) -> None:
        api = f"{kind[0]}/v1"
        found = ObjectFacts(api, kind[1], "n", "g", "o", labels=owners, annotations=owners, spec=spec, status=status)
        one = PodFacts("u", "n", "p", labels=labels, annotations=annotations, owner=Owner(kind[1], "g", "o", api))
        told = recognise(one, World([found]))
        sound(told)
        joined = replace(one, labels={**labels, "tangram.scheduler/pod-group": "g"}, scheduling_group="g", owner=None)
        sound(recognise(joined, World([found])))
        sound(recognise(replace(joined, labels=labels, workload_ref=("g", "a")), World([found])))

    @given(manifest=st.sampled_from(names()), labels=WORDS, annotations=WORDS, spec=SECTION, data=st.data())
    def test_on_manifests_gone_wrong(
        self,
        manifest: str,
        labels: dict[str, str],
        annotations: dict[str, str],
        spec: dict[str, Any],
        data: st.DataObject,
    ) -> None:
        world = load(manifest)
        one = world.pods[data.draw(st.sampled_from(sorted(world.pods)))]
        wrong = replace(one, labels={**one.labels, **labels}, annotations={**one.annotations, **annotations})
        objects = [replace(found, spec={**found.spec, **spec}) for found in world.objects]
        sound(recognise(wrong, World(objects)))


def sound(found: Membership) -> None:
    """What holds of every answer: a pod that may be placed stands in a leaf of its gang, and minima are no riddle."""
    if found.gang is None:
        assert found.spec is None
        return
    assert (found.spec is not None) or found.missing or found.problem
    if found.spec is not None:
        leaves = [leaf.name for leaf in found.spec.root.leaves()]
        assert found.problem or leaves.count(found.leaf) == 1
        assert all(leaf.minimum >= 0 for leaf in found.spec.root.leaves())
