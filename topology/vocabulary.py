"""Every word that Tangram reads from or writes to Kubernetes objects, each once, with its aliases.

The words users write are a promise (they outlive any version of the code), so no other module spells a key out.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

PREFIX: Final = "tangram.scheduler/"
API_GROUP: Final = "tangram.scheduler"
KAI_QUEUE_GROUP: Final = "scheduling.run.ai"
"""The API group of KAI's Queue and PodGroup, which are read as they are."""
KAI_TOPOLOGY_GROUP: Final = "kai.scheduler"
"""The same for its Topology."""
DEFAULT_SCHEDULER_NAME: Final = "tangram"


class Word(NamedTuple):
    """A key users write: the spelling we document, others we take as equal, and others we take but warn about."""

    key: str
    aliases: tuple[str, ...] = ()
    deprecated: tuple[str, ...] = ()

    @property
    def spellings(self) -> tuple[str, ...]:
        """All accepted spellings; the first one present wins."""
        return (self.key, *self.aliases, *self.deprecated)


# -- what we write --------------------------------------------------------------------------------------------
GATE: Final = "tangram.scheduler/queued"
"""Scheduling gate that the admission policy adds and the planner removes."""
ALLOCATION: Final = "tangram.scheduler/allocation"
"""Annotation on bound pods: JSON, see scheduler.allocation."""
GPU_UUIDS: Final = "tangram.scheduler/gpu-uuids"
"""Annotation on bound pods: what NVIDIA_VISIBLE_DEVICES becomes through the downward API."""
TOPOLOGY_DOMAIN: Final = "tangram.scheduler/topology-domain"
"""Annotation on bound pods of a gang: the domain that was chosen, its values from the broadest level on."""
RANK: Final = "tangram.scheduler/rank"
"""Annotation on bound pods of a gang: numbers such that neighbours in number are neighbours in the network."""
VISIBLE_DEVICES_ENV: Final = "NVIDIA_VISIBLE_DEVICES"

# -- what users write on pods ----------------------------------------------------------------------------------
QUEUE: Final = Word("tangram.scheduler/queue", aliases=("kai.scheduler/queue",))
GPU_FRACTION: Final = Word("gpu-fraction", deprecated=("kai.scheduler/gpu-fraction",))
GPU_MEMORY: Final = Word("gpu-memory", deprecated=("kai.scheduler/gpu-memory",))
GPU_FRACTION_NUM_DEVICES: Final = Word("gpu-fraction-num-devices")
GPU_FRACTION_CONTAINER: Final = Word("gpu-fraction-container-name")
SHARE_WORDS: Final = (GPU_FRACTION, GPU_MEMORY, GPU_FRACTION_NUM_DEVICES, GPU_FRACTION_CONTAINER)
POD_GROUP: Final = Word("tangram.scheduler/pod-group")
"""Label: the PodGroup, ours or KAI's, of its namespace that the pod joins."""
PREEMPTIBILITY: Final = Word("tangram.scheduler/preemptibility", aliases=("kai.scheduler/preemptibility",))
"""Label: see the two values below. Without it the priority class decides."""
PREEMPTIBLE: Final = "preemptible"
NON_PREEMPTIBLE: Final = "non-preemptible"
SIMULATED_OUTAGE: Final = "tangram.scheduler/simulated-outage"
"""Annotation on nodes of simulated manifests: when they are gone."""
SIMULATED_DURATION: Final = "tangram.scheduler/simulated-duration"
"""Annotation on pods of simulated manifests: how long they really run, whatever they say that is expected."""
EXPECTED_RUNTIME: Final = Word("tangram.scheduler/expected-runtime")
"""Annotation: how long the pod runs once it has started, as a duration such as 90m."""

# -- gangs: what names a group, on pods ------------------------------------------------------------------------
SUBGROUP: Final = Word("tangram.scheduler/subgroup", aliases=("kai.scheduler/subgroup-name",))
"""Label: the leaf of its PodGroup that a pod stands in."""
KAI_POD_GROUP: Final = Word("pod-group-name")
SKIP_GROUPER: Final = Word("kai.scheduler/skip-podgrouper")
VOLCANO_GROUP: Final = Word("scheduling.k8s.io/group-name", aliases=("scheduling.volcano.sh/group-name",))
VOLCANO_TASK: Final = Word("volcano.sh/task-spec")
VOLCANO_TASK_INDEX: Final = Word("volcano.sh/task-index")
COSCHEDULING_GROUP: Final = Word("scheduling.x-k8s.io/pod-group")
OLD_COSCHEDULING_GROUP: Final = Word("pod-group.scheduling.sigs.k8s.io/name")
OLD_COSCHEDULING_MINIMUM: Final = Word("pod-group.scheduling.sigs.k8s.io/min-available")
GROVE_GANG: Final = Word("grove.io/podgang")
GROVE_CLIQUE: Final = Word("grove.io/podclique")
GROVE_INDEX: Final = Word("grove.io/podclique-pod-index")
KOORDINATOR_GANG: Final = Word("gang.scheduling.koordinator.sh/name")
KOORDINATOR_MINIMUM: Final = Word("gang.scheduling.koordinator.sh/min-available")
KOORDINATOR_GROUPS: Final = Word("gang.scheduling.koordinator.sh/groups")
KOORDINATOR_TOPOLOGY: Final = Word("gang.scheduling.koordinator.sh/network-topology-spec")
KUEUE_GROUP: Final = Word("kueue.x-k8s.io/pod-group-name")
KUEUE_TOTAL: Final = Word("kueue.x-k8s.io/pod-group-total-count")
KUEUE_FAST_ADMISSION: Final = Word("kueue.x-k8s.io/pod-group-fast-admission")
KUEUE_INDEX: Final = Word("kueue.x-k8s.io/pod-group-pod-index")
KUEUE_INDEX_LABEL: Final = Word("kueue.x-k8s.io/pod-group-pod-index-label")
YUNIKORN_APP: Final = Word("yunikorn.apache.org/app-id", aliases=("applicationId",))
YUNIKORN_TASK_GROUP: Final = Word("yunikorn.apache.org/task-group-name")
YUNIKORN_TASK_GROUPS: Final = Word("yunikorn.apache.org/task-groups")

# -- gangs: how large, on owners -------------------------------------------------------------------------------
MIN_MEMBER: Final = Word("tangram.scheduler/batch-min-member", aliases=("kai.scheduler/batch-min-member",))
"""Annotation of a Job, of a JobSet or of a template in it: how many have to start together."""
MIN_PARALLELISM: Final = Word("kueue.x-k8s.io/job-min-parallelism")
VOLCANO_MIN_MEMBER: Final = Word("scheduling.volcano.sh/group-min-member")
STALE_SINCE: Final = Word("kai.scheduler/stale-podgroup-timestamp")
LAST_START: Final = Word("kai.scheduler/last-start-timestamp")

# -- near each other: annotations of owners, templates and pods --------------------------------------------------
TOPOLOGY: Final = Word("tangram.scheduler/topology", aliases=("kai.scheduler/topology",))
REQUIRED_PLACEMENT: Final = Word(
    "tangram.scheduler/topology-required-placement", aliases=("kai.scheduler/topology-required-placement",)
)
PREFERRED_PLACEMENT: Final = Word(
    "tangram.scheduler/topology-preferred-placement", aliases=("kai.scheduler/topology-preferred-placement",)
)
SEGMENT_SIZE: Final = Word("tangram.scheduler/segment-size", aliases=("kai.scheduler/segment-size",))
SEGMENT_REQUIRED: Final = Word(
    "tangram.scheduler/segment-topology-required-placement",
    aliases=("kai.scheduler/segment-topology-required-placement",),
)
SEGMENT_PREFERRED: Final = Word(
    "tangram.scheduler/segment-topology-preferred-placement",
    aliases=("kai.scheduler/segment-topology-preferred-placement",),
)
KUEUE_REQUIRED: Final = Word("kueue.x-k8s.io/podset-required-topology")
KUEUE_PREFERRED: Final = Word("kueue.x-k8s.io/podset-preferred-topology")
KUEUE_UNCONSTRAINED: Final = Word("kueue.x-k8s.io/podset-unconstrained-topology")
KUEUE_SLICE_REQUIRED: Final = Word("kueue.x-k8s.io/podset-slice-required-topology")
KUEUE_SLICE_SIZE: Final = Word("kueue.x-k8s.io/podset-slice-size")
KUEUE_SLICE_LAYERS: Final = Word("kueue.x-k8s.io/podset-slice-required-topology-constraints")
KUEUE_PODSET_GROUP: Final = Word("kueue.x-k8s.io/podset-group-name")
JOBSET_EXCLUSIVE: Final = Word("alpha.jobset.sigs.k8s.io/exclusive-topology")
LWS_EXCLUSIVE: Final = Word("leaderworkerset.sigs.k8s.io/exclusive-topology")
LWS_SUBGROUP_EXCLUSIVE: Final = Word("leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology")

# -- what controllers write on the pods they make ----------------------------------------------------------------
JOB_INDEX: Final = Word("batch.kubernetes.io/job-completion-index")
POD_INDEX: Final = Word("apps.kubernetes.io/pod-index")
JOBSET_NAME: Final = Word("jobset.sigs.k8s.io/jobset-name")
JOBSET_REPLICATED_JOB: Final = Word("jobset.sigs.k8s.io/replicatedjob-name")
JOBSET_JOB_INDEX: Final = Word("jobset.sigs.k8s.io/job-index")
JOBSET_ATTEMPT: Final = Word("jobset.sigs.k8s.io/restart-attempt")
KUBEFLOW_REPLICA_TYPE: Final = Word("training.kubeflow.org/replica-type")
KUBEFLOW_REPLICA_INDEX: Final = Word("training.kubeflow.org/replica-index")
KUBEFLOW_ROLE: Final = Word("training.kubeflow.org/job-role")
RAY_CLUSTER: Final = Word("ray.io/cluster")
RAY_GROUP: Final = Word("ray.io/group")
RAY_NODE_TYPE: Final = Word("ray.io/node-type")
RAY_REPLICA_INDEX: Final = Word("ray.io/worker-group-replica-index")
RAY_HOST_INDEX: Final = Word("ray.io/replica-host-index")
LWS_NAME: Final = Word("leaderworkerset.sigs.k8s.io/name")
LWS_GROUP_INDEX: Final = Word("leaderworkerset.sigs.k8s.io/group-index")
LWS_WORKER_INDEX: Final = Word("leaderworkerset.sigs.k8s.io/worker-index")
LWS_SIZE: Final = Word("leaderworkerset.sigs.k8s.io/size")
SPARK_APP: Final = Word("spark-app-selector")
SPARK_ROLE: Final = Word("spark-role")
SPARK_EXECUTOR: Final = Word("spark-exec-id")

# -- what owners say of queue and priority, in the words of others -------------------------------------------------
FOREIGN_QUEUE: Final = Word(
    "kueue.x-k8s.io/queue-name",
    aliases=(
        "volcano.sh/queue-name",
        "scheduling.volcano.sh/queue-name",
        "yunikorn.apache.org/queue",
        "quota.scheduling.koordinator.sh/name",
    ),
)
"""Label: counts where none of ours is there."""
PRIORITY_CLASS: Final = Word(
    "priorityClassName", aliases=("ray.io/priority-class-name", "kueue.x-k8s.io/priority-class")
)
"""Label of a top owner."""
VOLCANO_PREEMPTABLE: Final = Word("volcano.sh/preemptable")

# -- what administrators write on namespaces ---------------------------------------------------------------------
DEFAULT_QUEUE: Final = Word("tangram.scheduler/default-queue")
"""Label: the queue of workloads of the namespace that name none."""

# -- priority classes --------------------------------------------------------------------------------------------
PRIORITIES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "tangram-train": 50,
        "tangram-build-preemptible": 75,
        "tangram-build": 100,
        "tangram-inference": 125,
        "train": 50,
        "build-preemptible": 75,
        "build": 100,
        "inference": 125,
    }
)
"""What our classes and KAI's are worth, also for groups that name one where their pods name none."""
PRIORITY_CLASSES: Final = tuple(PRIORITIES)
"""Pods of these classes are preemptible while their priority is below `NON_PREEMPTIBLE_FROM`."""
NON_PREEMPTIBLE_FROM: Final = 100

# -- what administrators write on nodes ------------------------------------------------------------------------
NODE_SHARES: Final = "tangram.scheduler/shares"
"""Label: "true" says that something on this node honours NVIDIA_VISIBLE_DEVICES; "false" says that nothing does."""
NODE_CLUSTER: Final = "tangram.scheduler/cluster"
"""Annotation: the cluster identity of a virtual node that does not say it in another way."""
NODE_GPU_UUIDS: Final = "tangram.scheduler/node-gpu-uuids"
"""Annotation: comma-separated device UUIDs of the node by index, where an administrator or agent knows them."""
NODE_GPU_ISLANDS: Final = "tangram.scheduler/node-gpu-islands"
"""Annotation: comma-separated numbers by index of the device; those with one number are near one another."""
HAMI_NVIDIA_REGISTER: Final = "hami.io/node-nvidia-register"
"""Annotation of HAMi's device plugin; read for the NUMA node of each device."""
KWOK_NODE: Final = "kwok.x-k8s.io/node"
"""Annotation that KWOK puts on the nodes it plays."""
NODE_ANNOTATIONS: Final = (
    NODE_CLUSTER,
    NODE_GPU_UUIDS,
    NODE_GPU_ISLANDS,
    HAMI_NVIDIA_REGISTER,
    KWOK_NODE,
    SIMULATED_OUTAGE,
)
"""The only node annotations that are read; others change too often to be kept."""

# -- resource names --------------------------------------------------------------------------------------------
DEFAULT_DEVICE_RESOURCES: Final = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
)
MIG_RESOURCE_PREFIX: Final = "nvidia.com/mig-"
