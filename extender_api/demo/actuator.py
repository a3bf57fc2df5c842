"""Carries out in the embedded cluster what the engine decides, as the real actuator does in a real one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from extender_api import text
from extender_api.actuator import BindOutcome, BindResult
from extender_api.demo.embedded import ConflictError, EmbeddedCluster, NotFoundError
from scheduler.instruction import BindOrder, Instruction, Nominate, Release, Tell, Warn


class EmbeddedActuator:
    """Writes take effect on the next turn of the event loop; `on_result` hears of releases and nominations."""

    def __init__(self, cluster: EmbeddedCluster, on_result: Callable[[str, bool], None]) -> None:
        self._cluster = cluster
        self._on_result = on_result

    def submit(self, instruction: Instruction) -> None:
        """Takes an order; never blocks."""
        asyncio.get_running_loop().call_soon(self._carry_out, instruction)

    async def bind(self, order: BindOrder) -> BindResult:
        """Posts the Binding."""
        try:
            self._cluster.bind(order.uid, order.node, order.annotations)
        except NotFoundError as err:
            return BindResult(BindOutcome.GONE, str(err))
        except ConflictError as err:
            return BindResult(BindOutcome.ELSEWHERE, str(err))
        return BindResult(BindOutcome.BOUND)

    def _carry_out(self, instruction: Instruction) -> None:
        try:
            self._write(instruction)
        except (NotFoundError, ConflictError):
            done = False
        else:
            done = True
        if isinstance(instruction, Release | Nominate):
            self._on_result(instruction.uid, done)

    def _write(self, instruction: Instruction) -> None:
        cluster, uid = self._cluster, instruction.uid
        match instruction:
            case Release():
                if instruction.nominate:
                    cluster.set_status(uid, nominatedNodeName=instruction.node)
                cluster.ungate(uid)
            case Nominate():
                cluster.set_status(uid, nominatedNodeName=instruction.node)
            case Tell():
                cluster.tell(uid, text.phrase(instruction.reason.code))
                if instruction.gated:
                    message = text.sentence(instruction.reason)
                    cluster.set_condition(uid, reason="SchedulingGated", message=message)
            case Warn():
                cluster.tell(uid, instruction.text)
