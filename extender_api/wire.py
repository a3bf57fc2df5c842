"""The messages between kube-scheduler and an extender (k8s.io/kube-scheduler/extender/v1), exactly as Go has them.

Keys are capitalised because the Go structs carry no JSON tags; their order is that of the structs. Reading is as
tolerant as Go's decoder: keys match in any case, unknown ones are ignored, null is absence; a wrong type is an error.
Answers are made here too, one for every way of being in trouble.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic_core import from_json, to_json
from typing_extensions import TypedDict

from extender_api.errors import MalformedRequest

Object = dict[str, Any]
"""A Kubernetes object as parsed JSON."""


class ExtenderArgs(TypedDict):
    """What filter and prioritize are asked. Without nodeCacheCapable the nodes come in full, else as names."""

    Pod: Object
    Nodes: Object | None
    NodeNames: list[str] | None


class ExtenderFilterResult(TypedDict):
    """The nodes that pass, in the form in which they were asked; the reasons count only when none does."""

    Nodes: Object | None
    NodeNames: list[str] | None
    FailedNodes: dict[str, str]
    FailedAndUnresolvableNodes: dict[str, str]
    Error: str


class HostPriority(TypedDict):
    """A node's score: a whole number, because Go drops the whole answer over a fraction."""

    Host: str
    Score: int


class ExtenderBindingArgs(TypedDict):
    """Which pod is to be bound to which node."""

    PodName: str
    PodNamespace: str
    PodUID: str
    Node: str


class ExtenderBindingResult(TypedDict):
    """An empty Error means that the pod is bound."""

    Error: str


class MetaPod(TypedDict):
    """A pod by its uid."""

    UID: str


class MetaVictims(TypedDict):
    """The pods that would have to go from one node."""

    Pods: list[MetaPod]
    NumPDBViolations: int


class Victims(TypedDict):
    """The same with the pods in full, sent without nodeCacheCapable."""

    Pods: list[Object]
    NumPDBViolations: int


class ExtenderPreemptionArgs(TypedDict):
    """Candidate nodes with their victims, in one of the two forms."""

    Pod: Object
    NodeNameToVictims: dict[str, Victims] | None
    NodeNameToMetaVictims: dict[str, MetaVictims] | None


class ExtenderPreemptionResult(TypedDict):
    """The candidates that stay, always with uids."""

    NodeNameToMetaVictims: dict[str, MetaVictims]


# -- answers --------------------------------------------------------------------------------------------------


def encode(answer: object) -> bytes:
    """The JSON of an answer. Numbers that JSON does not have become null."""
    return to_json(answer, inf_nan_mode="null")


def filter_error(text: str) -> ExtenderFilterResult:
    """No answer: kube-scheduler tries again later and autoscalers ignore the pod."""
    return {
        "Nodes": None,
        "NodeNames": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": text,
    }


def filter_result(args: ExtenderArgs, passed: Sequence[str], refused: Mapping[str, str]) -> ExtenderFilterResult:
    """The nodes that pass, in the form asked. `refused` maps names to reasons, for when none passes.

    All reasons go where preemption does not look: it would find no victim for what only we know about.
    """
    nodes, names = args["Nodes"], args["NodeNames"]
    return {
        "Nodes": None if nodes is None else _kept(nodes, frozenset(passed)),
        "NodeNames": None if names is None else list(passed),
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": dict(refused),
        "Error": "",
    }


def priorities(scores: Iterable[tuple[str, int]]) -> list[HostPriority]:
    """Scores by node name; an empty list is also the answer to trouble."""
    return [{"Host": name, "Score": int(score)} for name, score in scores]


def binding_result(error: str) -> ExtenderBindingResult:
    """An empty text for success."""
    return {"Error": error}


def preemption_result(victims: Mapping[str, Sequence[str]], violations: Mapping[str, int]) -> ExtenderPreemptionResult:
    """Node → uids of its victims; an empty mapping is also the answer to trouble.

    `violations` are those that kube-scheduler counted; fewer victims cannot violate more budgets than they are.
    """
    return {
        "NodeNameToMetaVictims": {
            node: {
                "Pods": [{"UID": uid} for uid in uids],
                "NumPDBViolations": min(violations.get(node, 0), len(uids)),
            }
            for node, uids in victims.items()
        }
    }


# -- questions ------------------------------------------------------------------------------------------------


def read_args(body: bytes) -> ExtenderArgs:
    """The question of filter and prioritize. Raises MalformedRequest."""
    document = _document(body)
    pod = _member(document, "Pod", dict)
    nodes = _member(document, "Nodes", dict)
    names = _member(document, "NodeNames", list)
    if pod is None:
        raise MalformedRequest("Pod is missing")
    if nodes is None and names is None:
        raise MalformedRequest("both Nodes and NodeNames are missing")
    if names:
        try:
            "".join(names)  # the cheapest way to look at every type
        except TypeError:
            raise MalformedRequest("NodeNames is not a list of texts") from None
    return {"Pod": pod, "Nodes": nodes, "NodeNames": names}


def offered_names(args: ExtenderArgs) -> list[str]:
    """The names of the offered nodes, in the order given. Raises MalformedRequest for a node without a name."""
    names, nodes = args["NodeNames"], args["Nodes"]
    return names if names is not None else [_node_name(node) for node in _items(nodes or {})]


def read_binding(body: bytes) -> ExtenderBindingArgs:
    """The question of bind; all four members must be there. Raises MalformedRequest."""
    document = _document(body)
    return {
        "PodName": _text(document, "PodName"),
        "PodNamespace": _text(document, "PodNamespace"),
        "PodUID": _text(document, "PodUID"),
        "Node": _text(document, "Node"),
    }


def read_preemption(body: bytes) -> ExtenderPreemptionArgs:
    """The question of preempt. Raises MalformedRequest."""
    document = _document(body)
    pod = _member(document, "Pod", dict)
    full = _member(document, "NodeNameToVictims", dict)
    meta = _member(document, "NodeNameToMetaVictims", dict)
    if pod is None:
        raise MalformedRequest("Pod is missing")
    return {
        "Pod": pod,
        "NodeNameToVictims": None if full is None else _by_node(full, _full_victims),
        "NodeNameToMetaVictims": None if meta is None else _by_node(meta, _meta_victims),
    }


def victims_of(args: ExtenderPreemptionArgs) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Node → uids of its victims, and node → how many disruption budgets they violate."""
    meta = args["NodeNameToMetaVictims"]
    if meta is not None:
        uids = {node: [pod["UID"] for pod in victims["Pods"]] for node, victims in meta.items()}
        return uids, {node: victims["NumPDBViolations"] for node, victims in meta.items()}
    full = args["NodeNameToVictims"] or {}
    uids = {node: [_uid(pod) for pod in victims["Pods"]] for node, victims in full.items()}
    return uids, {node: victims["NumPDBViolations"] for node, victims in full.items()}


def pod_identity(pod: Object) -> tuple[str, str, str]:
    """Namespace, name and uid of a parsed pod, for logs and look-ups; empty where there is none."""
    metadata = pod.get("metadata")
    if not isinstance(metadata, dict):
        return "", "", ""
    namespace, name, uid = (metadata.get(key) for key in ("namespace", "name", "uid"))
    return (
        namespace if isinstance(namespace, str) else "",
        name if isinstance(name, str) else "",
        uid if isinstance(uid, str) else "",
    )


_KINDS: Final = {dict: "an object", list: "a list", str: "a text", int: "a whole number"}


def _document(body: bytes) -> Object:
    try:
        document = from_json(body, allow_inf_nan=False, cache_strings="keys")
    except ValueError as err:
        raise MalformedRequest(f"not JSON: {err}") from None
    if not isinstance(document, dict):
        raise MalformedRequest("not a JSON object")
    return document


def _member(document: Object, key: str, kind: type) -> Any:
    """A member, None when absent or null."""
    if key in document:
        value = document[key]
    else:
        folded = key.lower()
        value = next((item for name, item in document.items() if name.lower() == folded), None)
    if value is not None and type(value) is not kind:
        raise MalformedRequest(f"{key} is not {_KINDS[kind]}")
    return value


def _text(document: Object, key: str) -> str:
    value = _member(document, key, str)
    if not value:
        raise MalformedRequest(f"{key} is missing")
    return str(value)


def _items(nodes: Object) -> list[Any]:
    items = nodes.get("items")
    if items is None:
        return []
    if not isinstance(items, list):
        raise MalformedRequest("Nodes.items is not a list")
    return items


def _node_name(node: Any) -> str:
    name = pod_identity(node)[1] if isinstance(node, dict) else ""
    if not name:
        raise MalformedRequest("a node has no name")
    return name


def _kept(nodes: Object, names: frozenset[str]) -> Object:
    """The node list reduced to some names; everything else in it as it came."""
    return {**nodes, "items": [node for node in _items(nodes) if _node_name(node) in names]}


def _by_node(candidates: Object, read: Any) -> dict[str, Any]:
    """Candidates with their victims; a node with null has none."""
    found = {}
    for node, victims in candidates.items():
        if victims is not None and not isinstance(victims, dict):
            raise MalformedRequest("victims are not an object")
        found[node] = read(victims or {})
    return found


def _full_victims(victims: Object) -> Victims:
    pods = _member(victims, "Pods", list) or []
    for pod in pods:
        if not isinstance(pod, dict) or not _uid(pod):
            raise MalformedRequest("a victim has no uid")
    return {"Pods": pods, "NumPDBViolations": _member(victims, "NumPDBViolations", int) or 0}


def _meta_victims(victims: Object) -> MetaVictims:
    pods: list[MetaPod] = []
    for pod in _member(victims, "Pods", list) or []:
        if not isinstance(pod, dict):
            raise MalformedRequest("a victim has no uid")
        pods.append({"UID": _text(pod, "UID")})
    return {"Pods": pods, "NumPDBViolations": _member(victims, "NumPDBViolations", int) or 0}


def _uid(pod: Object) -> str:
    return pod_identity(pod)[2]
