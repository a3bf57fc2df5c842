"""The objects of a plan document: Kubernetes objects of many kinds in, the facts that the planner reads out.

Nothing here raises for bad objects: what is wrong with each goes to `problems`, what is left out of account to `notes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from extender_api.cluster.decode import decode_namespace, decode_node, decode_pod
from extender_api.cluster.fields import DecodeError
from extender_api.cluster.object_kinds import OBJECT_KINDS, OUR_POD_GROUP
from extender_api.cluster.owner import object_codec
from extender_api.plan_priorities import PriorityClasses, read_class
from extender_api.pod_group_objects.read import check_pod_group
from extender_api.queue_objects.read import read_queue
from extender_api.topology_objects.read import one_of_each_name, read_topology
from queues.spec import QueueSpec
from scheduler.object_facts import ObjectFacts
from scheduler.pod import PodFacts
from topology import vocabulary
from topology.node import NodeFacts
from topology.topology import Topology

Facts = TypeVar("Facts")
Object = Mapping[str, Any]

READ: Final[Mapping[str, tuple[str, ...]]] = {
    "Node": ("",),
    "Pod": ("",),
    "Namespace": ("",),
    "PriorityClass": ("scheduling.k8s.io",),
    "Queue": (vocabulary.API_GROUP, vocabulary.KAI_QUEUE_GROUP),
    "Topology": (vocabulary.API_GROUP, vocabulary.KAI_TOPOLOGY_GROUP),
}
"""Kind → API groups of what is planned with, beside the objects of OBJECT_KINDS."""
_OBJECTS: Final = {(kind.group, kind.kind): kind for kind in OBJECT_KINDS}
UNHEEDED: Final = frozenset({"PodDisruptionBudget"})
"""Kinds of the contract that this version accepts and does nothing with."""
DEEPEST_LIST: Final = 4
NAMES_SHOWN: Final = 5


class Item(NamedTuple):
    """One object, and where it stands in the document, e.g. `objects[2].items[0]`."""

    where: str
    content: Object

    @property
    def kind(self) -> str:
        return str(self.content["kind"])

    @property
    def group(self) -> str:
        """The API group, "" for the core group and for objects without apiVersion."""
        return str(self.content.get("apiVersion") or "").rpartition("/")[0]

    @property
    def is_read(self) -> bool:
        """Whether it is of a kind that is planned with; an object without apiVersion is taken by its kind."""
        if self.kind in READ:
            return not self.content.get("apiVersion") or self.group in READ[self.kind]
        return (self.group or _group_unsaid(self), self.kind) in _OBJECTS


def _group_unsaid(item: Item) -> str:
    """Kinds of other makes share their names with each other: of those without apiVersion only our own are taken."""
    return vocabulary.API_GROUP if not item.content.get("apiVersion") else ""


@dataclass(slots=True)
class PlanObjects:
    """What the objects say. Use it only when `problems` is empty."""

    nodes: list[NodeFacts] = field(default_factory=list)
    pods: list[PodFacts] = field(default_factory=list)
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    queues: list[QueueSpec] = field(default_factory=list)
    topologies: list[Topology] = field(default_factory=list)
    objects: list[ObjectFacts] = field(default_factory=list)
    """Of OBJECT_KINDS: what owns pods and what describes groups of them."""
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_objects(listed: object, scheduler_name: str) -> PlanObjects:
    """Reads the member `objects` of a plan document."""
    found = PlanObjects()
    if not isinstance(listed, list):
        found.problems.append('"objects" must be a list of Kubernetes objects')
        return found
    items = list(_items(listed, "objects", 0, found.problems))
    read = [item for item in items if item.is_read]
    found.nodes = _decoded(read, "Node", decode_node, lambda node: node.name, found.problems)
    classes = _classes(read, found.problems)
    pods = [item._replace(content=classes.resolve(item.content, found.problems)) for item in _of(read, "Pod")]
    found.pods = _decoded(pods, "Pod", decode_pod, lambda pod: pod.key, found.problems)
    namespaces = _decoded(read, "Namespace", decode_namespace, lambda namespace: namespace.name, found.problems)
    found.namespaces = {namespace.name: namespace.labels for namespace in namespaces}
    found.queues = _queues(read, found.problems)
    found.topologies = _topologies(read, found.problems)
    found.objects = _objects(read, found.problems)
    _check_uids([("Pod", pod.uid, pod.key) for pod in found.pods], found.problems)
    _check_uids([(f.kind, f.uid, f"{f.namespace}/{f.name}") for f in found.objects if f.uid], found.problems)
    found.notes += _unread(items)
    found.notes += _podless(found.nodes)
    found.notes += _strangers(found.pods, scheduler_name)
    return found


def _items(listed: list[Any], where: str, depth: int, problems: list[str]) -> Iterator[Item]:
    """The objects, with those of lists (`kubectl get -o json`) in the place of the lists."""
    for index, content in enumerate(listed):
        here = f"{where}[{index}]"
        if not isinstance(content, Mapping):
            problems.append(f"{here} is no Kubernetes object but {_sort(content)}")
        elif not isinstance(content.get("kind"), str) or not content["kind"]:
            problems.append(f"{here} has no kind")
        elif not content["kind"].endswith("List") or "items" not in content:
            yield Item(here, content)
        elif depth == DEEPEST_LIST:
            problems.append(f"{here} is a list in too many lists")
        elif content["items"] is not None and not isinstance(content["items"], list):
            problems.append(f"{here}: items must be a list")
        else:
            yield from _items(_typed(content), f"{here}.items", depth + 1, problems)


def _typed(content: Object) -> list[Any]:
    """The items of a list; those of a PodList and the like do not repeat their kind."""
    items: list[Any] = content["items"] or []
    kind = content["kind"].removesuffix("List")
    if not kind:
        return items
    given = {"kind": kind, "apiVersion": content.get("apiVersion") or ""}
    return [{**given, **item} if isinstance(item, Mapping) else item for item in items]


def _of(items: list[Item], kind: str) -> list[Item]:
    return [item for item in items if item.kind == kind]


def _decoded(
    items: list[Item],
    kind: str,
    decode: Callable[[Object], Facts],
    name: Callable[[Facts], str],
    problems: list[str],
) -> list[Facts]:
    """The facts of all objects of a kind, each of which may stand there once."""
    found: dict[str, Facts] = {}
    for item in _of(items, kind):
        try:
            facts = decode(item.content)
        except DecodeError as err:
            problems.append(str(err) if err.where != kind else f"{item.where}: {err}")
            continue
        if name(facts) in found:
            problems.append(f"{kind} {name(facts)} stands twice among the objects")
        found[name(facts)] = facts
    return list(found.values())


def _queues(items: list[Item], problems: list[str]) -> list[QueueSpec]:
    """Queues of both kinds; one name in both is no mistake of the document."""
    found = []
    for group in READ["Queue"]:
        of_group = [item for item in _of(items, "Queue") if (item.group or vocabulary.API_GROUP) == group]
        found += _decoded(of_group, "Queue", read_queue, lambda queue: queue.name, problems)
    return found


def _topologies(items: list[Item], problems: list[str]) -> list[Topology]:
    """Topologies of both kinds; of one name in both, ours."""
    sources = []
    for group in READ["Topology"]:
        of_group = [item for item in _of(items, "Topology") if (item.group or vocabulary.API_GROUP) == group]
        sources.append(_decoded(of_group, "Topology", read_topology, lambda topology: topology.name, problems))
    return list(one_of_each_name(*sources)[0])


def _objects(items: list[Item], problems: list[str]) -> list[ObjectFacts]:
    """Objects of all other kinds, in the order of the table of kinds."""
    found: list[ObjectFacts] = []
    for kind in OBJECT_KINDS:
        group = (kind.group, kind.kind)
        of_kind = [item for item in _of(items, kind.kind) if (item.group or _group_unsaid(item), item.kind) == group]
        found += _decoded(of_kind, kind.kind, _object, lambda facts: f"{facts.namespace}/{facts.name}", problems)
    return found


def _object(content: Object) -> ObjectFacts:
    """Facts of an object whose group and kind are known. Raises DecodeError."""
    group, _, version = str(content.get("apiVersion") or OUR_POD_GROUP.api_version).rpartition("/")
    kind = _OBJECTS[group, str(content["kind"])]
    facts = object_codec(kind, version).one(content)
    if version not in kind.versions:
        problem = f"{group}/{version} is not read: write {' or '.join(f'{group}/{known}' for known in kind.versions)}"
        raise DecodeError(f"{facts.kind} {facts.namespace}/{facts.name}", ("apiVersion",), problem)
    if kind is OUR_POD_GROUP:
        check_pod_group(content, facts)
    return facts


def _classes(items: list[Item], problems: list[str]) -> PriorityClasses:
    given = _decoded(items, "PriorityClass", read_class, lambda found: found.name, problems)
    return PriorityClasses(given)


def _check_uids(found: list[tuple[str, str, str]], problems: list[str]) -> None:
    """`found` are kind, uid and name of each."""
    seen: dict[str, str] = {}
    for kind, uid, key in sorted(found, key=lambda item: (item[2], item[0])):
        other = seen.setdefault(uid, f"{kind} {key}")
        if other != f"{kind} {key}":
            problems.append(f"{kind} {key} has the uid of {other}")


def _unread(items: list[Item]) -> Iterator[str]:
    """Kinds that play no part in the plan."""
    kinds = {(item.kind, item.group) for item in items if not item.is_read}
    for kind, group in sorted(kinds):
        shown = f"{kind}.{group}" if group else kind
        if kind in UNHEEDED:
            yield f"{shown} objects are not heeded yet: pods are planned one by one"
        else:
            yield f"{shown} objects play no part in a plan"


def _podless(nodes: list[NodeFacts]) -> Iterator[str]:
    """Nodes on which no pod fits, which is easily forgotten in nodes written by hand."""
    for node in sorted(nodes, key=lambda node: node.name):
        if "pods" not in node.allocatable:
            yield f"node {node.name} takes no pods: its status.allocatable says nothing about pods"


def _strangers(pods: list[PodFacts], scheduler_name: str) -> Iterator[str]:
    """Waiting pods that another scheduler is to place."""
    keys = sorted(
        pod.key for pod in pods if pod.node_name is None and not pod.finished and pod.scheduler_name != scheduler_name
    )
    if keys:
        shown = ", ".join(keys[:NAMES_SHOWN]) + (", …" if len(keys) > NAMES_SHOWN else "")
        yield f"{len(keys)} waiting pods are not planned, their schedulerName is not {scheduler_name}: {shown}"


def _sort(value: object) -> str:
    """What a JSON value is, for people."""
    names = {type(None): "null", bool: "a truth value", int: "a number", float: "a number", str: "a text"}
    return names.get(type(value), "a list")
