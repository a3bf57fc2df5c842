"""PodGroups of KAI's kind and of others: refusals, warnings, and what they carry beside the tree."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.gang_spec import GangSpec
from scheduler.membership import Membership
from scheduler.object_facts import ObjectFacts
from scheduler.pod import PodFacts
from scheduler.recognition import recognise
from tests.recognition.world import World, load, root, tree


def member(spec: dict[str, Any], subgroup: str = "", annotations: dict[str, str] | None = None) -> Membership:
    labels = {"tangram.scheduler/pod-group": "g"} | ({"kai.scheduler/subgroup-name": subgroup} if subgroup else {})
    group = ObjectFacts(
        "scheduling.run.ai/v2alpha2", "PodGroup", "team-a", "g", "u", annotations=annotations or {}, spec=spec
    )
    return recognise(PodFacts("p", "team-a", "p", labels=labels), World([group]))


def leaf(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "minMember": 1, **more}


REFUSED = [
    ({"minMember": 1, "minSubGroup": 1, "subGroups": [leaf("a")]}, "both minMember and minSubGroup"),
    ({"subGroups": [leaf("a", minSubGroup=1), leaf("b", parent="a")]}, "a has both"),
    ({"subGroups": [leaf("a"), leaf("a")]}, "two subgroups are named a"),
    ({"subGroups": [leaf("a", parent="nobody")]}, "parent nobody"),
    ({"subGroups": [leaf("a", parent="b"), leaf("b", parent="a")]}, "its own ancestor"),
    ({"subGroups": [leaf("a", parent="a")]}, "its own ancestor"),
    ({"subGroups": [leaf("c", parent="a"), leaf("a", parent="b"), leaf("b", parent="a")]}, "in a circle"),
    ({"subGroups": [leaf(f"s{i}", parent=f"s{i + 1}") for i in range(40)] + [leaf("s40")]}, "nested deeper"),
    ({"subGroups": [{"name": "a"}]}, "a has no minMember"),
    ({"subGroups": [{"name": "a", "minSubGroup": 1}]}, "a has minSubGroup and no subgroups"),
    ({"minSubGroup": 1}, "minSubGroup and no subgroups"),
    ({"subGroups": [{"minMember": 1}]}, "no name"),
    ({"subGroups": "all"}, "subGroups has to be a list"),
    ({"minMember": -1}, "minMember of the group itself"),
    ({"minMember": "two"}, "minMember of the group itself"),
]


@pytest.mark.parametrize(("spec", "told"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
def test_refused_for_all_its_pods(spec: dict[str, Any], told: str) -> None:
    found = member(spec, "a")
    assert told in found.problem
    assert "PodGroup team-a/g" in found.problem
    assert found.gang is not None
    assert found.spec is None


class TestSubgroupOfAPod:
    TREE: dict[str, Any] = {"subGroups": [leaf("a"), {"name": "b"}, leaf("b1", parent="b")]}  # noqa: RUF012

    @pytest.mark.parametrize("subgroup", ["nobody", "b", ""])
    def test_a_pod_in_no_leaf_is_left_out_and_told(self, subgroup: str) -> None:
        found = member(self.TREE, subgroup)
        assert "kai.scheduler" in found.problem or "tangram.scheduler/subgroup" in found.problem
        assert "a, b1" in found.problem
        assert found.spec is not None

    def test_the_others_go_on(self) -> None:
        assert member(self.TREE, "b1").problem == ""

    def test_a_subgroup_where_there_are_none(self) -> None:
        assert "it has none" in member({"minMember": 1}, "a").problem


class TestMinima:
    @pytest.mark.parametrize(("spec", "minimum"), [({}, 1), ({"minMember": 0}, 0), ({"minMember": 5}, 5)])
    def test_of_a_group_without_subgroups(self, spec: dict[str, Any], minimum: int) -> None:
        assert root(member(spec)).minimum == minimum

    def test_of_a_group_with_subgroups_are_idle(self) -> None:
        found = member({"minMember": 3, "subGroups": [leaf("a")]}, "a")
        assert "MIN_MEMBER_IDLE" in found.warnings
        assert root(found).minimum == 0

    def test_more_subgroups_than_there_are(self) -> None:
        found = member({"minSubGroup": 2, "subGroups": [leaf("a")]}, "a")
        assert "MIN_SUBGROUP_TOO_LARGE" in found.warnings
        assert root(found).min_children == 2


class TestWhatItCarries:
    def spec(self, **kwargs: Any) -> GangSpec:
        found = load("kai-podgroup").of("x-0").spec
        assert found is not None
        return found

    def test_claims_and_times(self) -> None:
        spec = self.spec()
        assert (spec.queue, spec.priority_class, spec.preemptible) == ("inference", "inference", False)
        assert spec.stale_grace_ms == 90_000
        assert spec.stale_since_ms == 1767323045_000
        assert spec.started_ms == 1767312000_000

    @pytest.mark.parametrize(("written", "grace_ms"), [("1h30m0s", 5_400_000), ("-1s", -1), ("0", 0), ("soon", None)])
    def test_grace(self, written: str, grace_ms: int | None) -> None:
        found = member({"stalenessGracePeriod": written})
        assert found.spec is not None
        assert found.spec.stale_grace_ms == grace_ms
        assert ("GRACE_UNREADABLE" in found.warnings) == (written == "soon")

    def test_what_cannot_be_read_is_told(self) -> None:
        found = member({"preemptibility": "semi"}, annotations={"kai.scheduler/stale-podgroup-timestamp": "yesterday"})
        assert found.warnings.keys() == {"PREEMPTIBILITY_UNKNOWN", "TIME_UNREADABLE"}
        assert found.problem == ""


class TestOthers:
    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            (
                {"minMember": 3, "minTaskMember": {"mpimaster": 1, "mpiworker": 2}},
                {"mpimaster": 1, "mpiworker": 2, "*": 0},
            ),
            ({"minMember": 2, "minTaskMember": {"mpimaster": 1, "mpiworker": 2}}, 2),
            ({"minMember": 2, "minTaskMember": {}}, 2),
        ],
    )
    def test_minima_of_volcanos_tasks_count_from_their_sum_on(self, spec: dict[str, Any], expected: Any) -> None:
        found = load("volcano").with_spec("PodGroup", spec).of("mpi-mpiworker-0")
        assert tree(root(found)) == expected

    def test_a_task_without_a_minimum(self) -> None:
        found = load("volcano").with_spec("PodGroup", {"minTaskMember": {"mpimaster": 1}}).of("mpi-mpiworker-0")
        assert (found.leaf, found.problem) == ("*", "")

    def test_a_tier_without_a_name_is_told(self) -> None:
        world = load("volcano").with_spec("PodGroup", {"networkTopology": {"mode": "hard", "highestTierAllowed": 2}})
        found = world.of("mpi-mpiworker-0")
        assert "highestTierAllowed" in found.warnings["TOPOLOGY_NOT_READ"]
        assert root(found).nearness is None

    def test_an_upstream_gang_needs_a_count(self) -> None:
        world = load("upstream-podgroup").with_spec("PodGroup", {"schedulingPolicy": {"gang": {}}})
        assert "minCount" in world.of("train-0").problem

    def test_a_group_that_a_workload_does_not_have(self) -> None:
        world = load("upstream-workload").with_spec("Workload", {"podGroups": [{"name": "x", "policy": {"basic": {}}}]})
        assert "no group workers" in world.of("w-0").problem

    def test_a_clique_that_a_gang_does_not_have(self) -> None:
        world = load("grove").with_spec("PodGang", {"podgroups": [{"name": "else", "minReplicas": 1}]})
        assert "disagg-0-decode" in world.of("disagg-0-decode-ak2zq").problem

    def test_coscheduling_with_a_bad_minimum(self) -> None:
        assert "minMember" in load("coscheduling").with_spec("PodGroup", {"minMember": "x"}).of("nginx-0").problem

    def test_coscheduling_without_a_minimum(self) -> None:
        assert root(load("coscheduling").with_spec("PodGroup", {"minMember": None}).of("nginx-0")).minimum == 1

    def test_a_gang_of_no_cliques(self) -> None:
        assert "podgroups" in load("grove").with_spec("PodGang", {"podgroups": []}).of("disagg-0-decode-ak2zq").problem

    def test_only_one_topology_key_counts_upstream(self) -> None:
        keys = {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}}
        found = load("upstream-podgroup").with_spec("PodGroup", keys).of("train-0")
        assert "TOPOLOGY_TWICE" in found.warnings
        nearness = root(found).nearness
        assert nearness is not None
        assert nearness.required == "a"
