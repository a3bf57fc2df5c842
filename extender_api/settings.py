"""Everything that can be set, once: keys, types, limits, defaults, and what each is for.

Where values come from (file, environment, flags) is `settings_sources`. Importing this module is cheap: `--help` does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from topology import domains, vocabulary

DNS_NAME: Final = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"
RESOURCE_NAME: Final = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"


class Address(NamedTuple):
    """Where to listen; port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`HOST:PORT` or `[IPv6]:PORT`. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("an IPv6 address stands in brackets")
    if not colon or not host or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise ValueError("not HOST:PORT")
    return Address(host, int(port))


def _address(text: str) -> str:
    return str(parse_address(text))


def _listed(value: object) -> object:
    """Text as a list: the environment and flags have nothing else."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)
    return [part.strip() for part in value.split(",") if part.strip()]


def _mapped(value: object) -> object:
    """Text as a mapping: JSON, or `key=value,key=value`."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("{"):
        return json.loads(value)
    pairs = [part.partition("=") for part in value.split(",") if part.strip()]
    if any(not equals for _, equals, _ in pairs):
        raise ValueError("not KEY=VALUE")
    return {key.strip(): number.strip() for key, _, number in pairs}


def _switch(value: object) -> object:
    """YAML reads a bare `off` as false."""
    return "off" if value is False else value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _allowed(text: str) -> dict[str, Any]:
    """What error messages and the example say is allowed, where the type does not say it well."""
    return {"allowed": text}


AddressText = Annotated[
    str, AfterValidator(_address), Field(json_schema_extra=_allowed("HOST:PORT, e.g. 127.0.0.1:8888"))
]
ResourceName = Annotated[str, Field(pattern=RESOURCE_NAME)]
Seconds = Annotated[float, Field(ge=0.001, le=86_400, allow_inf_nan=False)]
Placement = Literal["binpack", "spread"]
PolicyName = Literal[
    "binpack", "spread", "bestfit", "dotprod", "gpu-packing", "gpu-clustering", "fgd", "rsv", "rsv-max"
]


class Section(BaseModel):
    """A group of settings: read-only, and no key that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Extender(Section):
    """The listener that kube-scheduler calls."""

    address: AddressText = Field("127.0.0.1:8888", description="Where kube-scheduler calls.")
    max_request_mib: int = Field(
        128, ge=1, le=4096, description="Larger request bodies are refused. 5,000 names are about 0.2 MiB."
    )
    drain_s: Seconds = Field(
        10.0, description="On stopping, calls that are being answered (a bind in progress) get so long."
    )


class Ops(Section):
    """The listener for people and probes: API, pages, metrics, health."""

    address: AddressText = Field("127.0.0.1:8889", description="Where the ops API, metrics and health are.")
    max_request_mib: int = Field(
        32, ge=1, le=4096, description="Larger documents to plan are refused. 10,000 pods are about 20 MiB."
    )
    plan_s: Seconds = Field(60.0, description="Planning a document that takes longer is given up.")


class Cluster(Section):
    """What is known of the cluster, and how old it may be."""

    stale_after_s: Seconds = Field(
        240.0,
        ge=120,
        description="When nothing was heard of pods or of nodes for so long, Tangram is not ready until it hears of "
        "them again. The API server is heard every minute or so, even when nothing changes.",
    )


class Devices(Section):
    """What counts as a device, and what one holds."""

    resources: Annotated[tuple[ResourceName, ...], BeforeValidator(_listed)] = Field(
        vocabulary.DEFAULT_DEVICE_RESOURCES,
        min_length=1,
        description="Resource names whose devices are told apart; the first that a node has is used.",
        json_schema_extra=_allowed("resource names such as nvidia.com/gpu"),
    )
    shares_by_default: bool = Field(
        False,
        description=f"Whether real nodes without the label {vocabulary.NODE_SHARES} take device shares. Say true only "
        "where something on every node honours the assignment.",
    )
    reserve_mib: int = Field(
        0, ge=0, le=1_048_576, description="Memory of each device that is never given to shares, in MiB."
    )
    catalogue: Annotated[Mapping[str, Annotated[int, Field(ge=1)]], BeforeValidator(_mapped)] = Field(
        default_factory=dict,
        description="Device memory by product in MiB, for nodes whose labels do not say it; adds to the built-in one.",
        json_schema_extra=_allowed("product names with MiB, e.g. NVIDIA-L4: 23034"),
    )


class Topology(Section):
    """How nodes lie to each other."""

    levels: Annotated[tuple[str, ...], BeforeValidator(_listed), AfterValidator(domains.resolve_levels)] = Field(
        (),
        description="Node label keys from broad to narrow, or names of presets, which are replaced by their keys.",
        json_schema_extra=_allowed(f"label keys, broad to narrow, or presets: {', '.join(domains.PRESETS)}"),
    )


class PlacementSettings(Section):
    """Which of several fitting places is taken."""

    policy: PolicyName = Field(
        "rsv",
        description="How nodes and devices are chosen. rsv keeps what is left useful for the pods that come; rsv-max "
        "fills a cluster that pods seldom leave; binpack takes the fullest, spread the emptiest; the others are there "
        "to compare with.",
    )
    pools: Annotated[Mapping[str, PolicyName], BeforeValidator(_mapped)] = Field(
        default_factory=dict,
        description="Other policies for nodes with a label. A pod that may go to several pools goes to the first with "
        "room, in this order, and to nodes of no pool last.",
        json_schema_extra=_allowed('labels with policies, e.g. "pool=inference": spread, or the label\'s key alone'),
    )
    cpu: Placement | None = Field(
        None, description="With policy binpack or spread, or without any: nodes for pods without devices."
    )
    gpu: Placement | None = Field(None, description="The same: nodes for pods with devices.")
    device: Placement | None = Field(None, description="The same: devices within a node, for shares.")

    @model_validator(mode="after")
    def _parts_suit_the_policy(self) -> PlacementSettings:
        parts = [name for name in ("cpu", "gpu", "device") if getattr(self, name) is not None]
        if parts and "policy" in self.model_fields_set and self.policy not in ("binpack", "spread"):
            raise ValueError(
                f"placement.{parts[0]} is a part of the policies binpack and spread, and placement.policy is "
                f"{self.policy}: remove one of them"
            )
        return self


class Gate(Section):
    """How pods are handed to kube-scheduler."""

    max_released: int = Field(
        512, ge=1, le=100_000, description="Most pods planned and not yet bound: what kube-scheduler's queue may hold."
    )
    booking_deadline_s: Seconds = Field(
        60.0, description="A planned pod that does not come to bind for so long is planned again."
    )
    require_device_variable: bool = Field(
        True,
        description="Whether a share waits when its container would not learn its device, because the admission policy "
        "did not see the pod. False only where something else tells containers their devices.",
    )
    fact_ttl_s: Seconds = Field(
        30.0, description="How long the list of nodes that kube-scheduler offered for a pod is believed."
    )


class Nomination(Section):
    """status.nominatedNodeName before the gate goes: kube-scheduler then tries that node alone."""

    min_nodes: int = Field(
        1000, ge=0, description="From so many nodes on. It costs one write per pod and pays in large clusters."
    )


class Lease(Section):
    """Which of several replicas acts: the one beside the kube-scheduler that leads."""

    mode: Annotated[Literal["follow", "off"], BeforeValidator(_switch)] = Field(
        "off", description="follow: act only while kube-scheduler's Lease names this host. off: always act."
    )
    namespace: str = Field("kube-system", pattern=DNS_NAME, description="Namespace of kube-scheduler's Lease.")
    name: str = Field("tangram", pattern=DNS_NAME, description="Name of kube-scheduler's Lease.")
    hostname: str | None = Field(
        None, min_length=1, description="This host's name in the Lease, where it is not what the system says."
    )


class Usage(Section):
    """Usage over time as a part of fairness: who had much lately gets less of what all quotas leave."""

    source: Annotated[Literal["off", "own", "prometheus"], BeforeValidator(_switch)] = Field(
        "off", description="own: Tangram's own samples, kept in a ConfigMap. prometheus: read from usage's URL."
    )
    k: float = Field(
        1.0, ge=0, le=1000, allow_inf_nan=False, description="How much past usage weighs beside over-quota weights."
    )
    half_life_s: float = Field(
        0.0, ge=0, le=31_536_000, allow_inf_nan=False, description="Usage so old counts half. 0: all counts alike."
    )
    window_s: float = Field(
        604_800.0, ge=60, le=31_536_000, allow_inf_nan=False, description="Older usage does not count."
    )
    sample_s: float = Field(
        30.0, ge=1, le=60, allow_inf_nan=False, description="How often usage is sampled and kept, or read."
    )
    namespace: str = Field("tangram-system", pattern=DNS_NAME, description="Namespace of the ConfigMap with samples.")
    config_map: str = Field("tangram-usage", pattern=DNS_NAME, description="Name of the ConfigMap with samples.")
    prometheus_url: str | None = Field(
        None,
        pattern=r"^https?://",
        description="Where Prometheus is, e.g. http://prometheus.monitoring:9090.",
        json_schema_extra=_allowed("an http or https URL"),
    )
    prometheus_query: str = Field(
        "avg_over_time(tangram_queue_share_of_capacity[7d])",
        min_length=1,
        description="What gives the part of the capacity, from 0 to 1, that each queue used: one series per queue and "
        "resource, by the labels queue and resource (gpu, cpu, memory).",
    )

    @model_validator(mode="after")
    def _has_url(self) -> Usage:
        if self.source == "prometheus" and self.prometheus_url is None:
            raise ValueError("usage.source is prometheus, which needs usage.prometheus_url")
        return self


class Queues(Section):
    """Who may have how much. Queue objects of the cluster are read where there are any."""

    file: Annotated[Path, AfterValidator(Path.expanduser)] | None = Field(
        None, description="A file of Queue documents, watched for change, for clusters without our CRD."
    )
    default: str | None = Field(
        None, min_length=1, description="Queue of pods that name none, where their namespace names none either."
    )
    priority_classes: Annotated[tuple[str, ...], BeforeValidator(_listed)] = Field(
        vocabulary.PRIORITY_CLASSES,
        description="Pods of these classes are preemptible while their priority is below 100; all others are "
        "preemptible unless a label says otherwise.",
        json_schema_extra=_allowed("names of priority classes"),
    )
    starving_after_s: float = Field(
        600.0,
        ge=0,
        le=31_536_000,
        allow_inf_nan=False,
        description="Work that waits longer for room gets a reservation. 0: never.",
    )
    reservations: int = Field(8, ge=0, le=1024, description="Most reservations at once.")
    status_every_s: Seconds = Field(10.0, description="The status of a Queue is written at most so often.")


class Gangs(Section):
    """Pods that start together or not at all."""

    bind_wait_s: Seconds = Field(
        90.0,
        le=600,
        description="A member waits at bind so long for others of its gang. Shorter than the httpTimeout of the bind "
        "entry in the KubeSchedulerConfiguration, which is 120 s as shipped.",
    )
    stale: Literal["restart", "leave"] = Field(
        "restart",
        description="What happens to a gang that runs below its minimum after the grace: what is left of it is "
        "evicted, so that its owner starts it anew, or it is left alone.",
    )
    stale_grace_s: float = Field(
        60.0,
        ge=0,
        le=31_536_000,
        allow_inf_nan=False,
        description="The grace of a gang that does not say its own (stalenessGracePeriod of a PodGroup).",
    )


class Reasons(Section):
    """When a waiting pod is told why."""

    tell_after_s: Seconds = Field(0.4, description="A pod that waits shorter gets no message.")
    retell_after_s: Seconds = Field(10.0, description="A pod's message changes at most so often.")


class Limits(Section):
    """How hard the API server may be pressed."""

    write_concurrency: int = Field(32, ge=1, le=1024, description="Most writes to the API server at once.")
    events_per_second: float = Field(
        10.0, gt=0, le=10_000, allow_inf_nan=False, description="Most events written in a second, over all pods."
    )


class Log(Section):
    """What is logged, and how."""

    level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)] = Field(
        "info", description="What is logged."
    )
    format: Literal["json", "plain"] = Field("json", description="One JSON object a line, or plain text.")


class Settings(Section):
    """All settings. Times are seconds here; `…_ms` helpers give the core what it counts in."""

    scheduler_name: str = Field(
        vocabulary.DEFAULT_SCHEDULER_NAME,
        pattern=DNS_NAME,
        max_length=253,
        description="Pods with this spec.schedulerName are ours.",
    )
    kubeconfig: Annotated[Path, AfterValidator(Path.expanduser)] | None = Field(
        None, description="Kubeconfig file. Without it: $KUBECONFIG, the pod's service account, ~/.kube/config."
    )
    context: str | None = Field(None, min_length=1, description="Context of the kubeconfig file.")
    offline: bool = Field(False, description="No cluster: only the stateless API is served.")
    extender: Extender = Extender()
    ops: Ops = Ops()
    cluster: Cluster = Cluster()
    devices: Devices = Devices()
    topology: Topology = Topology()
    placement: PlacementSettings = PlacementSettings()
    gate: Gate = Gate()
    nomination: Nomination = Nomination()
    lease: Lease = Lease()
    queues: Queues = Queues()
    usage: Usage = Usage()
    gangs: Gangs = Gangs()
    reasons: Reasons = Reasons()
    limits: Limits = Limits()
    log: Log = Log()

    @model_validator(mode="after")
    def _two_listeners(self) -> Settings:
        if self.extender.address == self.ops.address and parse_address(self.ops.address).port != 0:
            raise ValueError(f"extender.address and ops.address must differ; both are {self.ops.address}")
        return self


def milliseconds(seconds: float) -> int:
    """Seconds of a setting as the core counts time; never 0 for a positive time."""
    return max(round(seconds * 1000), 1)
