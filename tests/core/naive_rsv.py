"""RSV in plain floats, straight from its description: one node, no tables kept, no fixed point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

PRICES = [0.0, *(0.01 * 50 ** (i / 8) for i in range(9))]


@dataclass
class Item:
    """A class: CPU and memory, whole devices or one share, and the demand."""

    cpu: int
    memory: int
    devices: int
    milli: int
    demand: int = 1


@dataclass
class Rest:
    """What is free on a node: `parts` are devices in part use, `idle` whole ones."""

    cpu: int
    memory: int
    idle: int
    parts: list[int] = field(default_factory=list)

    @property
    def room(self) -> int:
        return 1000 * self.idle + sum(self.parts)


@dataclass
class World:
    """The demand as drawn sets of items, and the weights."""

    sets: list[list[Item]]
    items: list[Item]
    block_weight: float
    best_fit: float
    cpu_price: float
    scarcity: float = 0.0

    def value(self, rest: Rest) -> float:
        """The mean over the sets of the least bound over the prices of CPU."""
        return sum(min(self._bound(rest, chosen, price) for price in PRICES) for chosen in self.sets) / len(self.sets)

    def _bound(self, rest: Rest, chosen: Sequence[Item], price: float) -> float:
        def worth(item: Item) -> float:
            return item.devices * item.milli + (self.cpu_price - price) * item.cpu

        def on_one(steps: int) -> float:
            best = [0.0]
            for free in range(1, steps + 1):
                fits = [one for one in chosen if one.milli < 1000 and -(-one.milli // 10) <= free]
                best.append(max([best[-1], *(best[free - -(-one.milli // 10)] + worth(one) for one in fits)]))
            return best[steps]

        full = on_one(100)
        on_all = [0.0]
        for free in range(1, rest.idle + 1):
            fits = [one for one in chosen if one.milli == 1000 and one.devices <= free]
            on_all.append(
                max([on_all[-1], on_all[-1] + full, *(on_all[free - one.devices] + worth(one) for one in fits)])
            )
        return price * max(rest.cpu, 0) + on_all[rest.idle] + sum(on_one(part // 10) for part in rest.parts)

    def blocks(self, rest: Rest) -> float:
        """What the whole blocks are worth that still fit."""
        asked = sum(one.demand * one.devices * one.milli for one in self.items)
        total = 0.0
        for one in self.items:
            if one.devices < 2 or one.milli < 1000 or one.devices > rest.idle:
                continue
            copies = rest.idle // one.devices
            if one.cpu:
                copies = min(copies, max(rest.cpu, 0) // one.cpu)
            if one.memory:
                copies = min(copies, max(rest.memory, 0) // one.memory)
            q = self.block_weight * one.devices * 1000 * one.demand * one.devices * one.milli / asked
            total += q * copies
        return total

    def cost(self, rest: Rest, item: Item) -> float:
        """Of the best choice of a device."""
        return min(cost for cost, _ in self.choices(rest, item))

    def choices(self, rest: Rest, item: Item) -> list[tuple[float, Rest]]:
        """What each choice of a device costs, and the rest that it leaves."""
        before = self.value(rest) + self.blocks(rest)
        found = []
        for after in self._afters(rest, item):
            cost = before - self.value(after) - self.blocks(after)
            cost += self.best_fit * 0.5 * (max(after.cpu, 0) / 128000 + after.room / 8000)
            cost += self.scarcity * item.devices * item.milli
            found.append((cost, after))
        return found

    @staticmethod
    def _afters(rest: Rest, item: Item) -> list[Rest]:
        cpu, memory = rest.cpu - item.cpu, rest.memory - item.memory
        if item.milli in (0, 1000):
            return [Rest(cpu, memory, rest.idle - item.devices, list(rest.parts))]
        found = []
        for at, part in enumerate(rest.parts):
            if part >= item.milli:
                left = [*rest.parts[:at], part - item.milli, *rest.parts[at + 1 :]]
                found.append(Rest(cpu, memory, rest.idle, left))
        if rest.idle:
            found.append(Rest(cpu, memory, rest.idle - 1, [*rest.parts, 1000 - item.milli]))
        return found
