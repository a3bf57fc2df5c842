"""Bad input is refused with one line for each thing that is wrong, and whatever is sent is answered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from extender_api import plan_document
from tests.plan.documents import SETTINGS, Object, node, pod, refused


def doc(*objects: Any, **options: Any) -> Object:
    return {"objects": list(objects), "options": options}


def without(item: Object, *path: str) -> Object:
    """The object without the member at the path."""
    found = json.loads(json.dumps(item))
    at = found
    for part in path[:-1]:
        at = at[part]
    del at[path[-1]]
    return dict(found)


@pytest.mark.parametrize(
    ("document", "named"),
    [
        (None, ["an object"]),
        ([], ["an object"]),
        ({}, ['"objects"']),
        ({"objects": {}}, ['"objects"']),
        ({"objects": [], "extra": 1, "other": 2}, ['"extra"', '"other"']),
        ({"objects": [], "options": []}, ['"options"']),
        (doc("text", 3, None, [], True), ["objects[0]", "objects[1]", "objects[2]", "objects[3]", "objects[4]"]),
        (doc({}), ["objects[0] has no kind"]),
        (doc({"kind": 3}), ["objects[0] has no kind"]),
        (doc({"kind": "PodList", "items": {}}), ["objects[0]: items"]),
        (doc({"kind": "List", "items": [{"kind": "List", "items": ["x"]}]}), ["objects[0].items[0].items[0]"]),
        (doc({"kind": "Pod"}), ["objects[0]: Pod: metadata"]),
        (doc(without(pod("p"), "metadata", "name")), ["metadata.name"]),
        (doc(without(node("n"), "metadata", "name")), ["metadata.name"]),
        (doc({"kind": "PriorityClass"}), ["objects[0]: PriorityClass: metadata.name"]),
        (doc({"kind": "PriorityClass", "metadata": {"name": "x"}, "value": "7"}), ["PriorityClass x: value"]),
        (doc({"kind": "PriorityClass", "metadata": {"name": "x"}, "value": True}), ["PriorityClass x: value"]),
        (doc({"kind": "PriorityClass", "metadata": {"name": "x"}, "value": 1 << 40}), ["PriorityClass x: value"]),
        (doc({"kind": "Namespace", "metadata": {"name": "x", "labels": []}}), ["Namespace x: metadata.labels"]),
        (doc(node("n", allocatable={"cpu": "many"})), ["Node n: status.allocatable.cpu"]),
        (
            doc(pod("p", metadata={"name": "p", "deletionTimestamp": "soon"})),
            ["Pod team/p: metadata.deletionTimestamp"],
        ),
        (doc(node("n"), node("n")), ["Node n stands twice"]),
        (doc(pod("p"), pod("p")), ["Pod team/p stands twice"]),
        (
            doc(pod("p", metadata={"name": "p", "uid": "u"}), pod("q", metadata={"name": "q", "uid": "u"})),
            ["Pod team/q has the uid of Pod team/p"],
        ),
        (doc(pod("p", spec={"priorityClassName": "none-such"})), ["Pod team/p: priorityClassName none-such"]),
        (doc(now="soon"), ["options.now"]),
        (doc(now=17), ["options.now"]),
        (doc(actions="allocate"), ["options.actions"]),
        (doc(actions=["allocate", "dance", {}]), ['"dance"', "{}"]),
        (doc(placement=3), ["options.placement"]),
        (doc(placement="tetris"), ["tetris"]),
        (doc(placement={"cpu": "tetris"}), ["tetris"]),
        (doc(placement={"gpus": "spread", "z": 1}), ["gpus", "z"]),
        (doc(colour="red"), ['"colour"']),
        (doc(pod("p"), pod("p"), "x", now="soon"), ["options.now", "Pod team/p", "objects[2]"]),
    ],
)
def test_each_problem_is_named(document: Any, named: list[str]) -> None:
    warnings = refused(document)
    assert len(warnings) == len(named), warnings
    for warning, part in zip(warnings, named, strict=True):
        assert part in warning


def test_a_list_that_holds_itself_ends() -> None:
    endless: Object = {"kind": "List", "items": []}
    endless["items"].append(endless)
    (warning,) = refused(doc(endless))
    assert "too many lists" in warning


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"objects":[],"options":{"now":NaN}}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"9" * 10_000, "not JSON"),
        (b"[]", "an object"),
    ],
)
def test_bytes_that_are_no_document(body: bytes, named: str) -> None:
    status, content = plan_document.answer_json(body, inventory=SETTINGS)
    assert status == 400
    (warning,) = json.loads(content)["warnings"]
    assert named in warning


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(["", "1", "-1", "0.5", "1e400", "nvidia.com/gpu", "Gt", "In", "2026-01-01T00:00:00Z", "\x00"]),
    st.text(max_size=3),
)
JSON = st.recursive(
    ODD, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)
SEEDS = [
    doc(
        node("n1", 2, labels={"kubernetes.io/hostname": "n1"}, spec={"taints": [{"key": "k", "effect": "NoSchedule"}]}),
        pod("a", fraction="0.5", spec={"tolerations": [{"key": "k", "operator": "Exists"}], "priority": 3}),
        pod("b", gpus=1, on="n1", annotations={"tangram.scheduler/allocation": "{}"}),
        {"kind": "PriorityClass", "metadata": {"name": "x"}, "value": 3},
        {"kind": "Namespace", "metadata": {"name": "team", "labels": {"a": "b"}}},
        actions=["allocate"],
        placement={"cpu": "spread"},
    )
]


def places(document: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything in a document."""
    inner: Any = ()
    if isinstance(document, dict):
        inner = document.items()
    elif isinstance(document, list):
        inner = enumerate(document)
    return [at, *(path for key, value in inner for path in places(value, (*at, key)))]


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[path[0]] = replaced(copy[path[0]], path[1:], value)
    return copy


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_whatever_is_sent_is_planned_or_refused_with_reasons(data: st.DataObject) -> None:
    """A good document with up to three members replaced by anything."""
    document = data.draw(st.sampled_from(SEEDS))
    for _ in range(data.draw(st.integers(1, 3))):
        document = replaced(document, data.draw(st.sampled_from(places(document))), data.draw(JSON))
    try:
        answer = plan_document.answer(document, inventory=SETTINGS)
    except plan_document.BadPlanInput as err:
        answer = {"warnings": err.warnings}
        event("refused")
    assert "placements" in answer or answer["warnings"]
    assert all(isinstance(warning, str) and warning for warning in answer["warnings"])
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
