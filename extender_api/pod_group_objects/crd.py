"""The definition of our PodGroup: `python -m extender_api.pod_group_objects.crd`."""

from __future__ import annotations

from typing import Final

from extender_api.crd import Definition
from extender_api.pod_group_objects.model import PodGroupSpecModel

POD_GROUP: Final = Definition(
    kind="PodGroup",
    plural="podgroups",
    short="tpg",
    description="Pods that start together or not at all. They name it in the label tangram.scheduler/pod-group.",
    spec=PodGroupSpecModel,
    spec_required=True,
    namespaced=True,
    columns=(
        ("Min pods", "integer", ".spec.minMember"),
        ("Subgroups", "string", ".spec.subGroups[*].name"),
        ("Queue", "string", ".spec.queue"),
        ("Priority class", "string", ".spec.priorityClassName"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ),
    made_by="extender_api.pod_group_objects.crd",
    notes=(
        "PodGroup objects are optional: groups of most kinds of jobs are recognised without.",
        "Deleting this definition deletes all PodGroup objects with it.",
    ),
)

if __name__ == "__main__":
    print(POD_GROUP.text(), end="")
