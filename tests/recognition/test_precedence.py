"""Which word counts when several are there, what is not there, whose group it is, and what goes beside a gang."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.claim import queue_named
from scheduler.gang_spec import GangKey
from scheduler.membership import ALONE, Membership
from scheduler.object_facts import ObjectFacts
from scheduler.pod import Owner, PodFacts
from scheduler.recognition import recognise
from tests.recognition.world import World, load, root, tree

EVERY_LABEL = {
    "tangram.scheduler/pod-group": "ours",
    "scheduling.x-k8s.io/pod-group": "plugin",
    "grove.io/podgang": "grove",
    "kueue.x-k8s.io/pod-group-name": "kueue",
    "pod-group.scheduling.sigs.k8s.io/name": "old",
    "pod-group.scheduling.sigs.k8s.io/min-available": "7",
    "yunikorn.apache.org/app-id": "app",
}
EVERY_ANNOTATION = {
    "pod-group-name": "kai",
    "scheduling.k8s.io/group-name": "volcano",
    "gang.scheduling.koordinator.sh/name": "koord",
    "gang.scheduling.koordinator.sh/min-available": "5",
    "kueue.x-k8s.io/pod-group-total-count": "6",
    "yunikorn.apache.org/task-group-name": "tg",
    "yunikorn.apache.org/task-groups": '[{"name": "tg", "minMember": 8}]',
}
ORDER = [
    ("PodGroup", "ours", "tangram.scheduler/pod-group"),
    ("kubernetes", "field", ""),
    ("kubernetes", "workload/workers", ""),
    ("PodGroup", "kai", "pod-group-name"),
    ("volcano", "volcano", "scheduling.k8s.io/group-name"),
    ("coscheduling", "plugin", "scheduling.x-k8s.io/pod-group"),
    ("grove", "grove", "grove.io/podgang"),
    ("koordinator", "koord", "gang.scheduling.koordinator.sh/name"),
    ("kueue", "kueue", "kueue.x-k8s.io/pod-group-name"),
    ("coscheduling-labels", "old", "pod-group.scheduling.sigs.k8s.io/name"),
    ("yunikorn", "app", "yunikorn.apache.org/app-id"),
    ("Job", "sweep", ""),
]


def pod(**changes: object) -> PodFacts:
    return replace(PodFacts("u", "team-a", "p"), **changes)  # type: ignore[arg-type]


def pod_group(name: str = "g", api: str = "tangram.scheduler/v1alpha1", **spec: object) -> ObjectFacts:
    return ObjectFacts(api, "PodGroup", "team-a", name, f"uid-{name}", spec=spec)


def joined(name: str = "g", **labels: str) -> PodFacts:
    return pod(labels={"tangram.scheduler/pod-group": name, **labels})


class TestOrder:
    @pytest.mark.parametrize("first", range(len(ORDER)))
    def test_the_first_word_there_decides(self, first: int) -> None:
        gone = {word for _, _, word in ORDER[:first]}
        one = replace(
            load("job").pods["sweep-0-x7k2p"],
            labels={key: value for key, value in EVERY_LABEL.items() if key not in gone},
            annotations={key: value for key, value in EVERY_ANNOTATION.items() if key not in gone},
            scheduling_group="field" if first <= 1 else "",
            workload_ref=("workload", "workers") if first <= 2 else None,
        )
        source, name, _ = ORDER[first]
        found = recognise(one, load("job"))
        assert found.gang is not None
        assert (found.gang.source, found.gang.name) == (source, name)
        assert ("GROUP_CONTRADICTION" in found.warnings) == (first < len(ORDER) - 2)

    def test_a_group_that_is_not_there_is_waited_for_and_the_owner_does_not_step_in(self) -> None:
        world = load("job")
        one = replace(world.pods["sweep-0-x7k2p"], annotations={"pod-group-name": "later"})
        found = recognise(one, world)
        assert found.gang == GangKey("team-a", "PodGroup", "later")
        assert found.spec is None
        assert found.missing == "PodGroup team-a/later"
        assert found.problem == ""

    def test_kinds_that_are_not_read_are_told(self) -> None:
        found = recognise(joined(), World(unread={"PodGroup"}))
        assert found.missing == "PodGroup team-a/g"
        assert "not installed" in found.warnings["GROUP_NOT_READ"]

    def test_the_same_group_named_twice_is_no_contradiction(self) -> None:
        one = pod(labels={"tangram.scheduler/pod-group": "g"}, annotations={"pod-group-name": "g"})
        assert recognise(one, World([pod_group(minMember=2)])).warnings == {}

    def test_ours_comes_before_kais_of_the_same_name(self) -> None:
        both = [pod_group(minMember=2), pod_group(api="scheduling.run.ai/v2alpha2", minMember=3)]
        found = recognise(joined(), World(both))
        assert root(found).minimum == 2
        assert "GROUP_TWICE" in found.warnings

    def test_left_to_another_controller(self) -> None:
        world = load("job")
        one = replace(world.pods["sweep-0-x7k2p"], annotations={"kai.scheduler/skip-podgrouper": "true"})
        found = recognise(one, world)
        assert found.spec is None
        assert "pod-group-name" in found.missing


class TestWhoMayJoin:
    def test_a_group_of_another_namespace_is_not_looked_at(self) -> None:
        world = World([pod_group(minMember=2)])
        found = recognise(replace(joined(), namespace="team-b"), world)
        assert found.gang == GangKey("team-b", "PodGroup", "g")
        assert found.missing == "PodGroup team-b/g"
        assert found.queue is None

    def test_an_owner_of_another_namespace_is_none(self) -> None:
        world = load("job")
        found = recognise(replace(world.pods["sweep-0-x7k2p"], namespace="team-b"), world)
        assert found.spec is None
        assert found.queue is None

    def test_the_group_of_another_owner_is_refused(self) -> None:
        job = Owner("PyTorchJob", "other", "uid-other", "kubeflow.org/v1")
        other = ObjectFacts("kubeflow.org/v1", "PyTorchJob", "team-a", "other", "uid-other")
        group = replace(pod_group(minMember=2, queue="rich"), owner=job)
        found = recognise(joined(), World([group, other]))
        assert "PyTorchJob other" in found.problem
        assert found.spec is None
        assert found.queue is None
        mine = recognise(replace(joined(), owner=job), World([group, other]))
        assert mine.problem == ""
        assert mine.queue == "rich"

    def test_a_group_of_a_workload_is_nobodys(self) -> None:
        workload = Owner("Workload", "w", "uid-w", "scheduling.k8s.io/v1beta1")
        group = ObjectFacts("scheduling.k8s.io/v1beta1", "PodGroup", "team-a", "g", "uid-g", owner=workload)
        world = World([group, ObjectFacts("scheduling.k8s.io/v1beta1", "Workload", "team-a", "w", "uid-w")])
        assert recognise(pod(scheduling_group="g"), world).problem == ""

    def test_a_group_made_for_the_pod_itself(self) -> None:
        group = replace(pod_group(minMember=1), owner=Owner("Pod", "p", "u", "v1"))
        assert recognise(joined(), World([group])).problem == ""
        assert recognise(replace(joined(), uid="intruder"), World([group])).problem != ""

    def test_pods_of_another_owner_are_no_members_of_a_kueue_group(self) -> None:
        world = load("kueue")
        job = load("job-plain")
        both = World([*world.objects, *job.objects])
        intruder = replace(
            job.pods["plain-0-x7k2p"],
            labels=world.pods["grp-0"].labels,
            annotations=world.pods["grp-0"].annotations,
        )
        assert recognise(world.pods["grp-0"], both).gang != recognise(intruder, both).gang

    def test_an_owner_made_anew_is_another_gang(self) -> None:
        world = load("job")
        one = world.pods["sweep-0-x7k2p"]
        anew = World([replace(world.objects[0], uid="anew")])
        assert one.owner is not None
        again = recognise(replace(one, owner=replace(one.owner, uid="anew")), anew)
        assert again.gang != world.of("sweep-0-x7k2p").gang


class TestOwnersThatAreNotThere:
    @pytest.mark.parametrize(
        ("manifest", "name", "kind", "missing"),
        [
            ("job", "sweep-0-x7k2p", "Job", "Job team-a/sweep"),
            ("jobset", "train-driver-0-0-x7k2p", "JobSet", "JobSet team-a/train"),
            ("jobset", "train-driver-0-0-x7k2p", "Job", "Job team-a/train-driver-0"),
            ("pytorchjob", "ddp-master-0", "PyTorchJob", "PyTorchJob team-a/ddp"),
            ("raycluster", "serve-head-4xk2p", "RayCluster", "RayCluster team-a/serve"),
            ("leaderworkerset", "vllm-0", "LeaderWorkerSet", "LeaderWorkerSet team-a/vllm"),
        ],
    )
    def test_are_waited_for_where_they_make_the_gang(self, manifest: str, name: str, kind: str, missing: str) -> None:
        found = load(manifest).without(kind).of(name)
        assert found.missing == missing
        assert found.gang is not None
        assert found.spec is None

    @pytest.mark.parametrize(("manifest", "name"), [("deployment", "web-7d9c5-k2xpd"), ("statefulset", "db-0")])
    def test_do_not_matter_where_pods_go_alone(self, manifest: str, name: str) -> None:
        world = World([], load(manifest).pods)
        assert world.of(name).gang is None
        assert world.of(name).missing == ""

    @pytest.mark.parametrize(
        ("manifest", "name", "kinds"),
        [
            ("jobset", "train-driver-0-0-x7k2p", ["Job", "JobSet"]),
            ("jobset", "train-driver-0-0-x7k2p", ["JobSet"]),
            ("pytorchjob", "ddp-master-0", ["PyTorchJob"]),
            ("raycluster", "serve-head-4xk2p", ["RayCluster"]),
        ],
    )
    def test_of_kinds_that_are_not_read_leave_the_pod_alone_and_say_so(
        self, manifest: str, name: str, kinds: list[str]
    ) -> None:
        found = load(manifest).blind(*kinds).of(name)
        assert found.gang is None
        assert "goes alone" in found.warnings["OWNER_NOT_READ"]

    def test_a_jobset_is_found_over_jobs_that_are_not_read(self) -> None:
        found = load("jobset").blind("Job").of("train-workers-0-0-x7k2p")
        assert found.gang == GangKey("team-a", "JobSet", "train", "jobset-train")
        assert found.queue == "research"

    def test_leaders_and_workers_say_their_size_themselves(self) -> None:
        world = load("leaderworkerset").blind("LeaderWorkerSet", "StatefulSet")
        leader, worker = world.of("vllm-2"), world.of("vllm-2-1")
        assert leader.gang == worker.gang == GangKey("team-a", "LeaderWorkerSet", "vllm-2")
        assert leader.spec == worker.spec
        assert tree(root(leader)) == {"leader": 1, "workers": 1}

    def test_a_job_that_is_not_read_may_have_its_minimum_on_the_pods(self) -> None:
        world = load("job-plain").blind("Job")
        one = replace(world.pods["plain-0-x7k2p"], annotations={"kai.scheduler/batch-min-member": "3"})
        assert root(recognise(one, world)).minimum == 3
        assert world.of("plain-0-x7k2p").gang is None

    def test_owners_in_a_circle(self) -> None:
        loop = [
            ObjectFacts("x/v1", "A", "team-a", "a", "a", owner=Owner("B", "b", "b", "x/v1")),
            ObjectFacts("x/v1", "B", "team-a", "b", "b", owner=Owner("A", "a", "a", "x/v1")),
        ]
        assert recognise(pod(owner=Owner("A", "a", "a", "x/v1")), World(loop)).gang is None


class TestBesideTheGang:
    def owned(self, labels: dict[str, str], **own: str) -> Membership:
        owner = ObjectFacts("apps/v1", "ReplicaSet", "team-a", "rs", "rs", labels=labels)
        return recognise(pod(labels=own, owner=Owner("ReplicaSet", "rs", "rs", "apps/v1")), World([owner]))

    def test_nothing_said_is_nothing_told(self) -> None:
        assert recognise(pod(), World()) == ALONE

    @pytest.mark.parametrize(
        ("labels", "queue"),
        [
            ({"tangram.scheduler/queue": "a", "kai.scheduler/queue": "b"}, "a"),
            ({"kai.scheduler/queue": "b", "kueue.x-k8s.io/queue-name": "c"}, "b"),
            ({"kueue.x-k8s.io/queue-name": "c", "volcano.sh/queue-name": "d"}, "c"),
            ({"volcano.sh/queue-name": "d"}, "d"),
            ({"yunikorn.apache.org/queue": "root.e"}, "root.e"),
            ({"quota.scheduling.koordinator.sh/name": "f"}, "f"),
        ],
    )
    def test_the_queue_of_the_owner(self, labels: dict[str, str], queue: str) -> None:
        assert self.owned(labels).queue == queue

    def test_our_word_on_the_pod_comes_before_a_foreign_one_on_the_owner(self) -> None:
        found = self.owned({"kueue.x-k8s.io/queue-name": "c"}, **{"tangram.scheduler/queue": "mine"})
        assert found.queue is None

    def test_foreign_words_on_the_pod_come_last_of_all(self) -> None:
        assert queue_named(pod(labels={"kueue.x-k8s.io/queue-name": "theirs"})) == "theirs"
        both = {"kueue.x-k8s.io/queue-name": "theirs", "kai.scheduler/queue": "ours"}
        assert queue_named(pod(labels=both)) == "ours"
        assert queue_named(pod(annotations={"kueue.x-k8s.io/queue-name": "theirs"})) is None

    def test_the_queue_of_the_group_comes_first(self) -> None:
        world = World(
            [pod_group(minMember=2, queue="of-group", priorityClassName="high", preemptibility="preemptible")]
        )
        found = recognise(joined(**{"tangram.scheduler/queue": "of-pod"}), world)
        assert (found.queue, found.priority_class, found.preemptible) == ("of-group", "high", True)

    @pytest.mark.parametrize(
        ("labels", "preemptible"),
        [
            ({"kai.scheduler/preemptibility": "preemptible"}, True),
            ({"tangram.scheduler/preemptibility": "non-preemptible"}, False),
            ({"volcano.sh/preemptable": "false"}, False),
            ({}, None),
        ],
    )
    def test_preemptible(self, labels: dict[str, str], preemptible: bool | None) -> None:
        assert self.owned(labels).preemptible is preemptible

    def test_an_unknown_preemptibility_is_told(self) -> None:
        assert "PREEMPTIBILITY_UNKNOWN" in self.owned({"kai.scheduler/preemptibility": "maybe"}).warnings

    def test_priority_of_the_owner(self) -> None:
        assert load("pytorchjob").of("ddp-master-0").priority_class == "train"
        assert load("raycluster").of("serve-head-4xk2p").priority_class == "inference"

    def test_topology_without_a_gang_is_told(self) -> None:
        one = pod(annotations={"kueue.x-k8s.io/podset-required-topology": "rack"})
        assert "TOPOLOGY_WITHOUT_GANG" in recognise(one, World()).warnings

    def test_a_minimum_for_volcano_on_any_owner(self) -> None:
        world = load("statefulset")
        asking = World(
            [replace(world.objects[0], annotations={"scheduling.volcano.sh/group-min-member": "2"})], world.pods
        )
        found = asking.of("db-1")
        assert found.gang == GangKey("team-a", "StatefulSet", "db", "statefulset-db")
        assert (root(found).minimum, found.index) == (2, 1)
