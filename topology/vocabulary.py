"""Every word that Tangram reads from or writes to Kubernetes objects, each once, with its aliases.

The words users write are a promise (they outlive any version of the code), so no other module spells a key out.
"""

from __future__ import annotations

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
VISIBLE_DEVICES_ENV: Final = "NVIDIA_VISIBLE_DEVICES"

# -- what users write on pods ----------------------------------------------------------------------------------
QUEUE: Final = Word("tangram.scheduler/queue", aliases=("kai.scheduler/queue",))
GPU_FRACTION: Final = Word("gpu-fraction", deprecated=("kai.scheduler/gpu-fraction",))
GPU_MEMORY: Final = Word("gpu-memory", deprecated=("kai.scheduler/gpu-memory",))
GPU_FRACTION_NUM_DEVICES: Final = Word("gpu-fraction-num-devices")
GPU_FRACTION_CONTAINER: Final = Word("gpu-fraction-container-name")
SHARE_WORDS: Final = (GPU_FRACTION, GPU_MEMORY, GPU_FRACTION_NUM_DEVICES, GPU_FRACTION_CONTAINER)
POD_GROUP: Final = Word("tangram.scheduler/pod-group")
PREEMPTIBILITY: Final = Word("tangram.scheduler/preemptibility", aliases=("kai.scheduler/preemptibility",))
"""Label: see the two values below. Without it the priority class decides."""
PREEMPTIBLE: Final = "preemptible"
NON_PREEMPTIBLE: Final = "non-preemptible"
EXPECTED_RUNTIME: Final = Word("tangram.scheduler/expected-runtime")
"""Annotation: how long the pod runs once it has started, as a duration such as 90m."""

# -- what administrators write on namespaces ---------------------------------------------------------------------
DEFAULT_QUEUE: Final = Word("tangram.scheduler/default-queue")
"""Label: the queue of workloads of the namespace that name none."""

# -- priority classes --------------------------------------------------------------------------------------------
PRIORITY_CLASSES: Final = (
    "tangram-train",
    "tangram-build-preemptible",
    "tangram-build",
    "tangram-inference",
    "train",
    "build-preemptible",
    "build",
    "inference",
)
"""Ours and KAI's: pods of these classes are preemptible while their priority is below `NON_PREEMPTIBLE_FROM`."""
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
NODE_ANNOTATIONS: Final = (NODE_CLUSTER, NODE_GPU_UUIDS, NODE_GPU_ISLANDS, HAMI_NVIDIA_REGISTER, KWOK_NODE)
"""The only node annotations that are read; others change too often to be kept."""

# -- resource names --------------------------------------------------------------------------------------------
DEFAULT_DEVICE_RESOURCES: Final = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
)
MIG_RESOURCE_PREFIX: Final = "nvidia.com/mig-"
