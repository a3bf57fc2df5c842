"""Objects by uid and by name, through any order of changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.object_facts import ObjectFacts, Objects
from scheduler.object_index import ObjectIndex


def job(name: str = "j", uid: str = "u", version: str = "v1") -> ObjectFacts:
    return ObjectFacts(f"batch/{version}", "Job", "a", name, uid)


def test_an_object_is_found_by_uid_and_by_name_whatever_its_version() -> None:
    objects: Objects = ObjectIndex([("batch", "Job")], [job(version="v7")])
    assert objects.by_uid("u") is objects.named("batch", "Job", "a", "j") is not None
    assert objects.by_uid("") is None
    for group, kind, namespace, name in (("", "Job", "a", "j"), ("batch", "Pod", "a", "j"), ("batch", "Job", "b", "j")):
        assert objects.named(group, kind, namespace, name) is None
    assert objects.reads("batch", "Job")
    assert not objects.reads("", "Job")


def test_objects_without_uid_are_found_by_name_alone() -> None:
    index = ObjectIndex(objects=[job("a", ""), job("b", "")])
    assert index.named("batch", "Job", "a", "a")
    assert index.named("batch", "Job", "a", "b")
    assert index.by_uid("") is None
    index.remove(job("a", ""))
    assert index.named("batch", "Job", "a", "a") is None
    assert len(index) == 1


def test_one_made_anew_survives_the_end_of_the_first() -> None:
    index = ObjectIndex(objects=[job(uid="first"), job(uid="second")])
    assert index.by_uid("first") is None
    index.remove(job(uid="first"))
    assert index.named("batch", "Job", "a", "j") is index.by_uid("second") is not None
    index.remove(job(uid="second"))
    assert len(index) == 0
    assert index.by_uid("second") is None


CHANGES = st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.sampled_from(["", "x", "y", "z"])))


@given(CHANGES)
def test_both_ways_lead_to_the_same_objects(changes: list[tuple[bool, str, str]]) -> None:
    index = ObjectIndex()
    for add, name, uid in changes:
        (index.add if add else index.remove)(job(name, uid))
        if add:
            assert index.named("batch", "Job", "a", name) == job(name, uid)
        named = [found for name in "abc" if (found := index.named("batch", "Job", "a", name))]
        assert len(named) == len(index)
        assert {found.uid for found in named if found.uid} == {uid for uid in "xyz" if index.by_uid(uid)}
        assert all(index.by_uid(found.uid) is found for found in named if found.uid)
