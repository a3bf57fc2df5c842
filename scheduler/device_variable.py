"""Whether a share can reach its container: the environment entry that the admission policy adds at creation."""

from __future__ import annotations

from scheduler.pod import PodFacts
from scheduler.problem import Problem, RequestError
from scheduler.request import Demand, Request
from topology import vocabulary


def check(pod: PodFacts, request: Request) -> None:
    """Raises RequestError for a share whose container would never learn its device.

    Without the entry the container sees no device or, where its image asks for all, every device of the node. The
    environment is fixed at creation, so such a pod can only be made anew.
    """
    if request.demand is not Demand.SHARE:
        return
    containers = (*pod.containers, *pod.init_containers)
    if any(container.gets_devices for container in containers if container.name == request.container):
        return
    raise RequestError(
        Problem.NO_DEVICE_VARIABLE,
        f"container {request.container} would not get its share: its {vocabulary.VISIBLE_DEVICES_ENV} must come from "
        f"the annotation {vocabulary.GPU_UUIDS}, which the policy tangram-devices sees to when a pod is created with "
        "its share; check the policy (tangram doctor) and create the pod anew",
        container=request.container,
    )
