"""The definition of our Topology: `python -m extender_api.topology_objects.crd`."""

from __future__ import annotations

from typing import Final

from extender_api.crd import Definition
from extender_api.topology_objects.model import TopologySpecModel

TOPOLOGY: Final = Definition(
    kind="Topology",
    plural="topologies",
    short="tt",
    description="Which labels of nodes are levels of a network: what is near to what.",
    spec=TopologySpecModel,
    spec_required=True,
    columns=(
        ("Preset", "string", ".spec.preset"),
        ("Levels", "string", ".spec.levels[*].nodeLabel"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ),
    made_by="extender_api.topology_objects.crd",
    notes=(
        "Topology objects are optional: only workloads that ask for nearness need one.",
        "Deleting this definition deletes all Topology objects with it.",
    ),
)

if __name__ == "__main__":
    print(TOPOLOGY.text(), end="")
