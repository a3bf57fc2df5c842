"""What a cluster consists of, as its state has it."""

from __future__ import annotations

import numpy as np

from scheduler.cluster import Cluster
from scheduler.constraints import Constraints
from scheduler.kernels.arrays import CPU
from scheduler.packing.hardware import Hardware, Model
from scheduler.state import ClusterState


def hardware_of(state: ClusterState) -> Hardware:
    """The hardware of all real nodes. Devices that are only counted are left out, with their nodes' CPU."""
    nodes, end = state.arrays, len(state.inventories)
    count = len(state.models)
    model, devices = nodes.model[:end], nodes.device_count[:end]
    modelled = devices > 0
    plain = ~nodes.accelerated[:end] & ~nodes.virtual[:end]
    cpu = nodes.total[:end, CPU]
    number = np.bincount(model[modelled], minlength=count)
    most = np.zeros(count, np.int64)
    np.maximum.at(most, model[modelled], devices[modelled])
    sums = np.zeros((2, count), np.int64)
    np.add.at(sums[0], model[modelled], devices[modelled])
    np.add.at(sums[1], model[modelled], cpu[modelled])
    return Hardware(
        tuple(
            Model(
                key.product,
                key.card_mib,
                int(number[at]),
                int(sums[0, at]),
                int(sums[1, at]),
                int(most[at]),
                key.takes_shares,
            )
            for key, at in state.models.items()
        ),
        int(cpu[plain].sum()),
    )


def models_open_to(cluster: Cluster, constraints: Constraints) -> frozenset[str] | None:
    """The models among whose nodes there are some to which rules about the node let a pod go; None for all."""
    state = cluster.state
    nodes, end = state.arrays, len(state.inventories)
    modelled = nodes.device_count[:end] > 0
    open_to_it = cluster.eligibility.mask(constraints)[:end] & modelled
    numbers = np.unique(nodes.model[:end][open_to_it])
    if numbers.size == np.unique(nodes.model[:end][modelled]).size:
        return None
    products = [key.product for key in state.models]
    return frozenset(products[number] for number in numbers.tolist())
