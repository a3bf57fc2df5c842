"""Questions of kube-scheduler, from bytes to wire types.

As tolerant as Go's decoder: keys match in any case, unknown ones are ignored, null is absence, the last of two equal
keys wins; a wrong type is an error. Whatever is wrong raises MalformedRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from pydantic_core import from_json

from extender_api import wire_names
from extender_api.errors import MalformedRequest
from extender_api.wire import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderPreemptionArgs,
    MetaPod,
    MetaVictims,
    Object,
    Victims,
)

AnyVictims = TypeVar("AnyVictims", Victims, MetaVictims)


def read_args(body: bytes) -> ExtenderArgs:
    """The question of filter and prioritize. Raises MalformedRequest."""
    parts = wire_names.split(body)
    names: Sequence[str] | None
    if parts is not None:
        head, names = parts
        document, nodes = _document(head), None
    else:
        document = _document(body)
        nodes = _member(document, "Nodes", dict)
        listed = _member(document, "NodeNames", list)
        names = None if listed is None else wire_names.check_names(listed)
    pod = _member(document, "Pod", dict)
    if pod is None:
        raise MalformedRequest("Pod is missing")
    if nodes is None and names is None:
        raise MalformedRequest("both Nodes and NodeNames are missing")
    return {"Pod": pod, "Nodes": nodes, "NodeNames": names}


def offered_names(args: ExtenderArgs) -> Sequence[str]:
    """The names of the offered nodes, in the order given. Raises MalformedRequest for a node without a name."""
    names, nodes = args["NodeNames"], args["Nodes"]
    listed = [] if nodes is None else [_node_name(node) for node in _items(nodes)]
    return listed if names is None else names


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


def identity(pod: Object) -> tuple[str, str, str]:
    """Namespace, name and uid of a parsed object, for logs and look-ups; empty where there is none."""
    metadata = pod.get("metadata")
    if not isinstance(metadata, dict):
        return "", "", ""
    namespace, name, uid = (metadata.get(key) for key in ("namespace", "name", "uid"))
    return (
        namespace if isinstance(namespace, str) else "",
        name if isinstance(name, str) else "",
        uid if isinstance(uid, str) else "",
    )


def nominated_node(pod: Object) -> str | None:
    """status.nominatedNodeName of a parsed pod."""
    status = pod.get("status")
    name = status.get("nominatedNodeName") if isinstance(status, dict) else None
    return name if isinstance(name, str) and name else None


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
    name = identity(node)[1] if isinstance(node, dict) else ""
    if not name:
        raise MalformedRequest("a node has no name")
    return name


def _by_node(candidates: Object, read: Callable[[Object], AnyVictims]) -> dict[str, AnyVictims]:
    """Candidates with their victims; a node with null has none."""
    found: dict[str, AnyVictims] = {}
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
    return identity(pod)[2]
