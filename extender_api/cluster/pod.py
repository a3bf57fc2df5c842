"""From a parsed v1 Pod to PodFacts.

What the API server fills in when it stores a pod is filled in here too, so that a pod from a file means the same as the
pod it becomes: requests from limits, host ports under hostNetwork, label keys folded into selectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Final, Literal

from extender_api.cluster.fields import NOTHING, Path, amounts, epoch_ms
from extender_api.cluster.pod_model import (
    AffinityModel,
    ContainerStatusModel,
    EnvModel,
    LabelSelectorModel,
    MetaModel,
    NodeRulesModel,
    PodModel,
    PodRulesModel,
    PodTermModel,
    PortModel,
    RequirementModel,
    ResourcesModel,
    SpecModel,
    StatusModel,
)
from scheduler.pod import (
    Container,
    HostPort,
    NodeSelectorTerm,
    Owner,
    PodAffinityTerm,
    PodFacts,
    Toleration,
)
from topology import vocabulary
from topology.selector import Requirement

DEVICES_PATH: Final = f"metadata.annotations['{vocabulary.GPU_UUIDS}']"
"""How an environment entry names the annotation that the Binding writes."""
_KEPT_PREFIXES = ("tangram.scheduler/", "kai.scheduler/", "gpu-", vocabulary.MIG_RESOURCE_PREFIX)
_KEPT_KEYS = frozenset(
    spelling for word in vars(vocabulary).values() if isinstance(word, vocabulary.Word) for spelling in word.spellings
)


def is_kept_annotation(key: str) -> bool:
    """Whether an annotation of a pod is kept: all words of the vocabulary, and what looks like an attempt at one.

    The rest (the last applied configuration, what network plug-ins write) is large or changes often.
    """
    return key.startswith(_KEPT_PREFIXES) or key in _KEPT_KEYS


def pod_facts(pod: PodModel) -> PodFacts:
    """The facts of a validated pod. Raises FieldError for a bad quantity or time.

    A pod without namespace is in `default`; one without uid gets `namespace/name`, which no uid looks like.
    """
    meta = pod["metadata"]
    spec: SpecModel = pod.get("spec") or {}
    status: StatusModel = pod.get("status") or {}
    name = meta["name"]
    namespace = meta.get("namespace") or "default"
    labels = meta.get("labels") or {}
    annotations = meta.get("annotations") or {}
    affinity: AffinityModel = spec.get("affinity") or {}
    resources = spec.get("resources") or {}
    return PodFacts(
        uid=meta.get("uid") or f"{namespace}/{name}",
        namespace=namespace,
        name=name,
        labels=labels,
        annotations={key: value for key, value in annotations.items() if is_kept_annotation(key)},
        owner=controller(meta),
        created_ms=epoch_ms(meta.get("creationTimestamp"), "metadata", "creationTimestamp") or 0,
        deleted_ms=epoch_ms(meta.get("deletionTimestamp"), "metadata", "deletionTimestamp"),
        resource_version=meta.get("resourceVersion") or "",
        scheduler_name=spec.get("schedulerName") or "default-scheduler",
        node_name=spec.get("nodeName") or None,
        nominated_node=status.get("nominatedNodeName") or None,
        phase=status.get("phase") or "Pending",
        gates=tuple([gate["name"] for gate in spec.get("schedulingGates") or ()]),
        priority=spec.get("priority") or 0,
        priority_class=spec.get("priorityClassName") or "",
        started_ms=epoch_ms(status.get("startTime"), "status", "startTime"),
        preemption_policy=spec.get("preemptionPolicy") or "PreemptLowerPriority",
        containers=_containers(pod, "containers"),
        init_containers=_containers(pod, "initContainers"),
        overhead=amounts(spec.get("overhead"), "spec", "overhead"),
        pod_requests=amounts(resources.get("requests"), "spec", "resources", "requests"),
        pod_limits=amounts(resources.get("limits"), "spec", "resources", "limits"),
        host_network=bool(spec.get("hostNetwork")),
        node_selector=spec.get("nodeSelector") or {},
        node_affinity=_node_affinity(affinity.get("nodeAffinity")),
        tolerations=_tolerations(spec),
        pod_affinity=_pod_terms(affinity.get("podAffinity"), namespace, labels),
        pod_anti_affinity=_pod_terms(affinity.get("podAntiAffinity"), namespace, labels),
        scheduling_group=(spec.get("schedulingGroup") or {}).get("podGroupName") or "",
        workload_ref=_workload_ref(spec),
    )


def same_pod(old: PodFacts, new: PodFacts) -> bool:
    """Whether nothing changed but the resource version, as with most updates of a running pod's status."""
    return bool(_compared(old) == _compared(new))


_compared = attrgetter(*(field for field in PodFacts.__dataclass_fields__ if field != "resource_version"))


def controller(meta: MetaModel) -> Owner | None:
    """The owner that controls an object."""
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller"):
            return Owner(owner["kind"], owner["name"], owner.get("uid") or "", owner.get("apiVersion") or "")
    return None


def _workload_ref(spec: SpecModel) -> tuple[str, str] | None:
    named = spec.get("workloadRef") or {}
    workload = named.get("name")
    return (workload, named.get("podGroup") or "") if workload else None


# -- containers ------------------------------------------------------------------------------------------------


def _containers(pod: PodModel, field: Literal["containers", "initContainers"]) -> tuple[Container, ...]:
    spec: SpecModel = pod.get("spec") or {}
    models = spec.get(field)
    if not models:
        return ()
    status: StatusModel = pod.get("status") or {}
    statuses: Mapping[str, ContainerStatusModel] = {}
    if spec.get("nodeName"):
        listed = status.get("containerStatuses") if field == "containers" else status.get("initContainerStatuses")
        statuses = {entry["name"]: entry for entry in listed or ()}
    host_network = bool(spec.get("hostNetwork"))
    found = []
    for index, model in enumerate(models):
        name = model["name"]
        requests, limits = _resources(model.get("resources"), field, index)
        container = statuses.get(name)
        if container is not None:
            requests = _with_resize(requests, container, status)
        ports = model.get("ports")
        found.append(
            Container(
                name,
                requests,
                limits,
                model.get("restartPolicy") == "Always",
                _host_ports(ports, host_network) if ports else (),
                _gets_devices(model.get("env")),
            )
        )
    return tuple(found)


def _gets_devices(env: list[EnvModel] | None) -> bool:
    """Whether the device variable comes from our annotation. Of several entries of a name the last one counts."""
    found = False
    for entry in env or ():
        if entry.get("name") == vocabulary.VISIBLE_DEVICES_ENV:
            source = (entry.get("valueFrom") or {}).get("fieldRef") or {}
            found = source.get("fieldPath") == DEVICES_PATH
    return found


def _resources(model: ResourcesModel | None, field: str, index: int) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Requests and limits; what is only limited is requested, too."""
    if not model:
        return NOTHING, NOTHING
    requests = amounts(model.get("requests"), "spec", field, index, "resources", "requests")
    limits = amounts(model.get("limits"), "spec", field, index, "resources", "limits")
    if not limits.keys() <= requests.keys():
        requests = {**limits, **requests}
    return requests, limits


def _with_resize(asked: Mapping[str, int], container: ContainerStatusModel, status: StatusModel) -> Mapping[str, int]:
    """What a container on a node counts for while its resize is not through: the greatest of what is asked, granted
    and in use; without what is asked when the node can never give it.
    """
    granted = amounts(container.get("allocatedResources"), *_STATUS, "allocatedResources")
    in_use = amounts((container.get("resources") or {}).get("requests"), *_STATUS, "resources", "requests")
    if granted is asked and _within(in_use, asked):
        return asked
    infeasible = _resize_is_infeasible(status)
    if not infeasible and _within(granted, asked) and _within(in_use, asked):
        return asked
    counted = [amount for amount in (granted, in_use) if amount]
    if not infeasible or not counted:
        counted.append(asked)
    names = asked.keys() | granted.keys() | in_use.keys()
    return {
        name: max((amount[name] for amount in counted if name in amount), default=asked.get(name, 0))
        for name in sorted(names)
    }


_STATUS: Path = ("status", "containerStatuses")


def _within(amount: Mapping[str, int], asked: Mapping[str, int]) -> bool:
    return amount is asked or all(value <= asked.get(name, 0) for name, value in amount.items())


def _resize_is_infeasible(status: StatusModel) -> bool:
    return any(
        condition["type"] == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in status.get("conditions") or ()
    )


def _host_ports(ports: list[PortModel], host_network: bool) -> tuple[HostPort, ...]:
    found = []
    for port in ports:
        number = port.get("hostPort") or (port.get("containerPort") if host_network else 0)
        if number:
            found.append(HostPort(port.get("protocol") or "TCP", port.get("hostIP") or "", number))
    return tuple(found)


# -- rules -----------------------------------------------------------------------------------------------------


def _tolerations(spec: SpecModel) -> tuple[Toleration, ...]:
    return tuple(
        [
            _toleration(
                model.get("key") or "",
                model.get("operator") or "Equal",
                model.get("value") or "",
                model.get("effect") or "",
            )
            for model in spec.get("tolerations") or ()
        ]
    )


@lru_cache(maxsize=4096)
def _toleration(key: str, operator: str, value: str, effect: str) -> Toleration:
    # Every pod carries the same few: one object for each.
    return Toleration(key, operator, value, effect)


def _requirements(models: list[RequirementModel] | None) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(model["key"], model["operator"], tuple(model.get("values") or ())) for model in models or ()
    )


def _node_affinity(rules: NodeRulesModel | None) -> tuple[NodeSelectorTerm, ...] | None:
    if not rules:
        return None
    required = rules.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return None
    return tuple(
        NodeSelectorTerm(
            labels=_requirements(term.get("matchExpressions")),
            fields=_requirements(term.get("matchFields")),
        )
        for term in required.get("nodeSelectorTerms") or ()
    )


def _pod_terms(rules: PodRulesModel | None, namespace: str, labels: Mapping[str, str]) -> tuple[PodAffinityTerm, ...]:
    if not rules:
        return ()
    terms = rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    return tuple(_pod_term(term, namespace, labels) for term in terms)


def _pod_term(term: PodTermModel, namespace: str, labels: Mapping[str, str]) -> PodAffinityTerm:
    selector = _selector(term.get("labelSelector"))
    if selector is not None:
        selector = _with_label_keys(selector, term, labels)
    namespaces = tuple(term.get("namespaces") or ())
    among = _selector(term.get("namespaceSelector"))
    if not namespaces and among is None:
        namespaces = (namespace,)
    return PodAffinityTerm(term["topologyKey"], selector, namespaces, among)


def _selector(model: LabelSelectorModel | None) -> tuple[Requirement, ...] | None:
    if model is None:
        return None
    exact = tuple(Requirement(key, "In", (value,)) for key, value in sorted((model.get("matchLabels") or {}).items()))
    return exact + _requirements(model.get("matchExpressions"))


def _with_label_keys(
    selector: tuple[Requirement, ...], term: PodTermModel, labels: Mapping[str, str]
) -> tuple[Requirement, ...]:
    """matchLabelKeys and mismatchLabelKeys as requirements; the API server may have added the same ones already."""
    keys = [(key, "In") for key in term.get("matchLabelKeys") or ()]
    keys += [(key, "NotIn") for key in term.get("mismatchLabelKeys") or ()]
    added = [Requirement(key, operator, (labels[key],)) for key, operator in keys if key in labels]
    return selector + tuple(requirement for requirement in added if requirement not in selector)
