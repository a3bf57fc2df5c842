"""A request in the form that the state arrays have: amounts by column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels import arrays as layout
from scheduler.kernels.arrays import Ask
from scheduler.request import Demand, Request
from topology import mig

CORE_COLUMNS: Final = {
    "cpu": layout.CPU,
    "memory": layout.MEMORY,
    "ephemeral-storage": layout.EPHEMERAL,
    "pods": layout.PODS,
}


class Shape(NamedTuple):
    """What a request asks of kernels, and what its pod takes: `vector` is int64[R], one of `pods` included."""

    ask: Ask
    vector: NDArray[np.int64]


def resources_of(request: Request) -> Iterator[str]:
    """The resources that need a column of their own before `shape_of` is called."""
    yield from (name for name, _ in request.extended)
    if request.demand is Demand.WHOLE:
        yield request.device_resource


def shape_of(request: Request, columns: Mapping[str, int], width: int) -> Shape:
    """The shape for arrays of `width` columns; `columns` knows all of `resources_of`."""
    vector = np.zeros(width, np.int64)
    vector[layout.CPU] = request.cpu_milli
    vector[layout.MEMORY] = request.memory_bytes
    vector[layout.EPHEMERAL] = request.ephemeral_bytes
    vector[layout.PODS] = 1
    for name, amount in request.extended:
        vector[columns[name]] = amount
    # in the order of names, not of columns, which depends on what was seen first
    order = [*CORE_COLUMNS.values(), *(columns[name] for name, _ in request.extended)]
    asked = np.array([column for column in order if vector[column] > 0], np.int64)
    whole = request.demand is Demand.WHOLE
    ask = Ask(
        columns=asked,
        amounts=vector[asked],
        demand=int(request.demand),
        devices=request.device_count,
        milli=request.share_milli,
        mib=request.share_memory_mib,
        device_column=columns[request.device_resource] if whole else -1,
        pack_column=columns[_packed_by(request)],
        cpu_milli=request.cpu_milli,
        memory_bytes=request.memory_bytes,
    )
    return Shape(ask, vector)


def _packed_by(request: Request) -> str:
    """The resource whose free amount orders the nodes."""
    if request.demand is Demand.WHOLE:
        return request.device_resource
    return next((name for name, _ in request.extended if mig.is_mig_resource(name)), "cpu")
