"""The price of devices of a model that is short while others are not: the dual of a transport problem."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.allocation import FULL_MILLI
from scheduler.kernels.rest_tables import UNIT
from scheduler.packing.cpu_price import cpu_asked
from scheduler.packing.figures import Figures
from scheduler.packing.hardware import Hardware

CPU_VALUE: Final = 0.001 / 12
"""Milli-GPU that a milli-CPU of pods without devices counts for: next to nothing."""
SPARE: Final = 1e-6
"""Nodes are taken for so much larger than they are. Where they just suffice, any price from 0 to 1 is a dual optimum;
so it is 0, whatever the solver's way there.
"""
DIGITS: Final = 6
"""To which duals are rounded, so that the solver's last digits decide nothing."""


class _Flow(NamedTuple):
    """Demand of one kind: pods of classes that ask the same of each model."""

    value: float
    """Milli-GPU of a pod."""
    cpu: int
    """Milli-CPU of a pod."""
    milli_on: tuple[int, ...]
    """[M] milli-GPU of a pod on each model; 0 where it may not go."""


def scarcity(of: Figures, hardware: Hardware, weight: float, pods: Sequence[int] | None) -> NDArray[np.int64]:
    """ν, int64[M] in UNIT for each milli-GPU (docs/packing.md, Scarcity); 0 for models without devices.

    `pods` is how many there are of each class at a time; where that is not known, the demand scaled to what fills all
    devices. The value of a share by memory is its mean milli-GPU, what it takes is that of the model's card.
    """
    price = np.zeros(len(hardware.models), np.int64)
    present = [number for number, model in enumerate(hardware.models) if model.devices]
    asked = sum(of.asked)
    if weight <= 0 or not asked or len(present) < 2:
        return price
    devices = FULL_MILLI * sum(model.devices for model in hardware.models)
    scale, count = (devices / asked, of.demand) if pods is None else (1.0, tuple(pods))
    duals = _duals(_flows(of, count), cpu_asked(of, count)[1], scale, hardware, present)
    least = min(duals)
    price[present] = [round(weight * (dual - least) * UNIT) for dual in duals]
    return price


def _flows(of: Figures, count: Sequence[int]) -> dict[_Flow, int]:
    """Pods with devices, those alike added up."""
    flows: dict[_Flow, int] = defaultdict(int)
    milli_on = (of.milli_on * of.devices[:, None]).tolist()
    for j, row in enumerate(milli_on):
        if count[j] and any(row):
            flows[_Flow(float(of.devices[j] * of.milli[j]), int(of.cpu[j]), tuple(row))] += count[j]
    return flows


def _duals(
    flows: dict[_Flow, int], plain_cpu: int, scale: float, hardware: Hardware, present: Sequence[int]
) -> list[float]:
    """y of each present model: what another milli-GPU of it would let the cluster serve. `scale` multiplies demand.

    Pods without devices are one flow of CPU, which nodes without devices take as well.
    """
    from ortools.linear_solver import pywraplp  # the command line starts without it

    solver: Any = pywraplp.Solver.CreateSolver("GLOP")
    objective = solver.Objective()
    objective.SetMaximization()

    def at_most(amount: float) -> Any:
        return solver.Constraint(-solver.infinity(), amount)

    def add(demand: Any, value: float, uses: Iterator[tuple[Any, int]]) -> None:
        variable = solver.NumVar(0, solver.infinity(), "")
        objective.SetCoefficient(variable, value)
        demand.SetCoefficient(variable, 1)
        for row, amount in uses:
            row.SetCoefficient(variable, amount)

    models = [hardware.models[number] for number in present]
    milli = [at_most(model.devices * FULL_MILLI * (1 + SPARE)) for model in models]
    cpu = [at_most(model.cpu_milli * (1 + SPARE)) for model in models]
    for flow, pods in flows.items():
        demand = at_most(pods * scale)
        for place, number in enumerate(present):
            if flow.milli_on[number] and flow.cpu <= hardware.models[number].cpu_milli:
                uses = ((milli[place], flow.milli_on[number]), (cpu[place], flow.cpu))
                add(demand, flow.value, iter(uses))
    demand = at_most(plain_cpu * scale)
    for row in [*cpu, at_most(float(hardware.plain_cpu_milli))]:
        add(demand, CPU_VALUE, iter([(row, 1)]))
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return [0.0] * len(present)
    return [round(row.dual_value(), DIGITS) for row in milli]
