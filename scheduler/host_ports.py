"""Ports of the nodes themselves: who has taken which, and where a pod's ports are free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from scheduler.pod import HostPort, PodFacts

ANY_ADDRESS: Final = "0.0.0.0"


def ports_of(pod: PodFacts) -> tuple[HostPort, ...]:
    """The host ports that the pod holds for as long as it runs: those of its containers and sidecars."""
    ports: tuple[HostPort, ...] = ()
    for container in pod.containers:
        if container.host_ports:
            ports += container.host_ports
    for container in pod.init_containers:
        if container.host_ports and container.restartable:
            ports += container.host_ports
    return ports


class HostPorts:
    """Port → slot → how often each address of the node has it taken."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, int], dict[int, Counter[str]]] = {}

    def take(self, slot: int, ports: Iterable[HostPort]) -> None:
        """Marks the ports as taken on the slot's node."""
        for port in ports:
            if port.port > 0:
                self._taken.setdefault(_kind(port), {}).setdefault(slot, Counter())[_address(port)] += 1

    def give(self, slot: int, ports: Iterable[HostPort]) -> None:
        """Takes back what `take` did with the same arguments."""
        for port in ports:
            if port.port > 0:
                kind = _kind(port)
                by_slot = self._taken[kind]
                addresses = by_slot[slot]
                addresses[_address(port)] -= 1
                if not +addresses:
                    del by_slot[slot]
                if not by_slot:
                    del self._taken[kind]

    def conflicts(self, ports: Iterable[HostPort]) -> set[int]:
        """The slots where at least one of the ports is taken. The address 0.0.0.0 collides with every other."""
        found: set[int] = set()
        for port in ports:
            for slot, addresses in self._taken.get(_kind(port), {}).items():
                if _address(port) == ANY_ADDRESS or addresses[ANY_ADDRESS] or addresses[_address(port)]:
                    found.add(slot)
        return found


def _kind(port: HostPort) -> tuple[str, int]:
    return (port.protocol or "TCP", port.port)


def _address(port: HostPort) -> str:
    return port.ip or ANY_ADDRESS
