"""Facts about a pod as the cluster tells them, reduced to what Tangram reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from topology import vocabulary
from topology.selector import Requirement


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port taken on the node. An empty or 0.0.0.0 `ip` collides with every address."""

    protocol: str
    ip: str
    port: int


@dataclass(frozen=True, slots=True)
class Container:
    """A container; resources in the units of `NodeFacts.allocatable`.

    `restartable` marks a sidecar (an init container with restartPolicy Always). `gets_devices` says that its device
    variable comes from the annotation that the Binding writes.
    """

    name: str
    requests: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    restartable: bool = False
    host_ports: tuple[HostPort, ...] = ()
    gets_devices: bool = False


@dataclass(frozen=True, slots=True)
class Toleration:
    """One toleration; empty `key` with Exists tolerates all, empty `effect` matches every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Expressions on labels and on fields (only `metadata.name`), all of which must hold.

    A term without any expression matches nothing.
    """

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class PodAffinityTerm:
    """One required term of pod affinity or anti-affinity.

    `selector` None matches no pod; an empty tuple matches every pod. `namespaces` is resolved: the pod's own when
    neither list nor selector is given. `namespace_selector` None means no selector, an empty tuple every namespace.
    """

    topology_key: str
    selector: tuple[Requirement, ...] | None
    namespaces: tuple[str, ...]
    namespace_selector: tuple[Requirement, ...] | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """The controlling owner reference."""

    kind: str
    name: str
    uid: str
    api_version: str = ""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A v1 Pod, reduced. Times are epoch milliseconds; `node_affinity` None means there is none.

    `scheduling_group` is the upstream PodGroup that its spec names, `workload_ref` the Workload and the group in it.
    """

    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner: Owner | None = None
    created_ms: int = 0
    deleted_ms: int | None = None
    resource_version: str = ""
    scheduler_name: str = "default-scheduler"
    node_name: str | None = None
    nominated_node: str | None = None
    phase: str = "Pending"
    gates: tuple[str, ...] = ()
    priority: int = 0
    priority_class: str = ""
    started_ms: int | None = None
    preemption_policy: str = "PreemptLowerPriority"
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Mapping[str, int] = field(default_factory=dict)
    pod_requests: Mapping[str, int] = field(default_factory=dict)
    pod_limits: Mapping[str, int] = field(default_factory=dict)
    host_network: bool = False
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    pod_affinity: tuple[PodAffinityTerm, ...] = ()
    pod_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    scheduling_group: str = ""
    workload_ref: tuple[str, str] | None = None

    @property
    def key(self) -> str:
        """`namespace/name`, for people."""
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        """Succeeded or Failed: holds nothing any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def gated_by_us(self) -> bool:
        """Our gate is on."""
        return vocabulary.GATE in self.gates

    @property
    def held_by_others(self) -> bool:
        """Carries a gate that is not ours: neither demand nor ready."""
        return any(gate != vocabulary.GATE for gate in self.gates)
