"""The objects of a plan document: Kubernetes objects of many kinds in, the facts that the planner reads out.

Nothing here raises for bad objects: what is wrong with each goes to `problems`, what is left out of account to `notes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from extender_api.cluster.decode import decode_namespace, decode_node, decode_pod
from extender_api.cluster.fields import DecodeError
from extender_api.plan_priorities import PriorityClasses, read_class
from extender_api.queue_objects.read import read_queue
from queues.spec import QueueSpec
from scheduler.pod import PodFacts
from topology import vocabulary
from topology.node import NodeFacts

Facts = TypeVar("Facts")
Object = Mapping[str, Any]

READ: Final[Mapping[str, tuple[str, ...]]] = {
    "Node": ("",),
    "Pod": ("",),
    "Namespace": ("",),
    "PriorityClass": ("scheduling.k8s.io",),
    "Queue": (vocabulary.API_GROUP, vocabulary.KAI_QUEUE_GROUP),
}
"""Kind → API groups of what is planned with."""
UNHEEDED: Final = frozenset({"PodDisruptionBudget", "PodGroup", "Topology"})
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
        return self.kind in READ and (not self.content.get("apiVersion") or self.group in READ[self.kind])


@dataclass(slots=True)
class PlanObjects:
    """What the objects say. Use it only when `problems` is empty."""

    nodes: list[NodeFacts] = field(default_factory=list)
    pods: list[PodFacts] = field(default_factory=list)
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    queues: list[QueueSpec] = field(default_factory=list)
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
    _check_uids(found.pods, found.problems)
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


def _classes(items: list[Item], problems: list[str]) -> PriorityClasses:
    given = _decoded(items, "PriorityClass", read_class, lambda found: found.name, problems)
    return PriorityClasses(given)


def _check_uids(pods: list[PodFacts], problems: list[str]) -> None:
    seen: dict[str, str] = {}
    for pod in sorted(pods, key=lambda pod: pod.key):
        other = seen.setdefault(pod.uid, pod.key)
        if other != pod.key:
            problems.append(f"Pod {pod.key} has the uid of Pod {other}")


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
