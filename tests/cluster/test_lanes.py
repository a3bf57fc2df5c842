from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from extender_api.cluster.gate import Fate, Step
from extender_api.cluster.lanes import Lanes, LaneSettings, Order, newer
from scheduler.instruction import Nominate, Release
from tests.cluster.objects import GATE
from tests.cluster.waiting import running, until

DONE, FAILED, AGAIN = Step(Fate.DONE, 200), Step(Fate.FAILED, 403), Step(Fate.AGAIN, 500)
QUICK = LaneSettings(workers=2, attempts=3, backoff_first_s=0.01, backoff_max_s=0.02)


def release(uid: str, node: str = "n1", *, nominate: bool = False) -> Release:
    return Release(uid, "default", uid, node, (GATE,), nominate)


def nominate(uid: str, node: str) -> Nominate:
    return Nominate(uid, "default", uid, node)


class Office:
    """Lanes with a worker that each test writes, and the ends that were reported."""

    def __init__(self, work: Callable[[Order], Awaitable[Step]], settings: LaneSettings = QUICK) -> None:
        self.ends: list[tuple[str, bool, int]] = []
        self.started: list[Order] = []
        self.work = work
        self.lanes = Lanes(self._work, lambda *end: self.ends.append(end), settings)

    async def _work(self, order: Order) -> Step:
        self.started.append(order)
        return await self.work(order)


async def at_once(_: Order) -> Step:
    return DONE


async def test_orders_are_carried_out_and_reported() -> None:
    office = Office(at_once)
    office.lanes.submit(release("a"))
    assert len(office.lanes) == 1
    async with running(office.lanes.run()):
        office.lanes.submit(nominate("b", "n2"))
        await until(lambda: len(office.ends) == 2)
    assert sorted(office.ends) == [("a", True, 200), ("b", True, 200)]
    assert len(office.lanes) == 0


@pytest.mark.parametrize(("step", "tries"), [(FAILED, 1), (AGAIN, 3)])
async def test_what_cannot_be_done_is_reported(step: Step, tries: int) -> None:
    async def work(_: Order) -> Step:
        return step

    office = Office(work)
    async with running(office.lanes.run()):
        office.lanes.submit(release("a"))
        await until(lambda: bool(office.ends))
        assert office.ends == [("a", False, step.status)]
        assert len(office.started) == tries
        assert len(office.lanes) == 0
        office.work = at_once  # a new order starts afresh
        office.lanes.submit(release("a"))
        await until(lambda: len(office.ends) == 2)
        assert office.ends[-1] == ("a", True, 200)


async def test_a_failing_pod_holds_up_nobody() -> None:
    async def work(order: Order) -> Step:
        return AGAIN if order.uid.startswith("bad") else DONE

    office = Office(work, LaneSettings(workers=1, attempts=100, backoff_first_s=30.0, backoff_max_s=60.0))
    async with running(office.lanes.run()):
        for number in range(20):
            office.lanes.submit(release(f"bad{number}"))
            office.lanes.submit(release(f"good{number}"))
        await until(lambda: len(office.ends) == 20)
    assert all(ok and uid.startswith("good") for uid, ok, _ in office.ends)
    assert len(office.lanes) == 20


async def test_many_at_once_but_one_per_pod() -> None:
    now: list[str] = []
    most = 0

    async def work(order: Order) -> Step:
        nonlocal most
        assert order.uid not in now
        now.append(order.uid)
        most = max(most, len(now))
        await asyncio.sleep(0.005)
        now.remove(order.uid)
        return DONE

    office = Office(work, LaneSettings(workers=4))
    async with running(office.lanes.run()):
        for number in range(40):
            office.lanes.submit(release(f"p{number % 8}", f"n{number}"))
            await asyncio.sleep(0.001)
        await until(lambda: len(office.lanes) == 0)
    assert most == 4
    last = {order.uid: getattr(order, "node", None) for order in office.started}
    assert last == {f"p{number}": f"n{32 + number}" for number in range(8)}


async def test_the_newer_plan_is_carried_out_on_the_next_try() -> None:
    async def work(order: Order) -> Step:
        return AGAIN if getattr(order, "node", None) == "n1" else DONE

    office = Office(work, LaneSettings(workers=1, attempts=5, backoff_first_s=0.05))
    async with running(office.lanes.run()):
        office.lanes.submit(release("a", "n1"))
        await until(lambda: len(office.started) == 1)
        office.lanes.submit(nominate("a", "n2"))
        await until(lambda: bool(office.ends))
    assert office.started == [release("a", "n1"), release("a", "n2", nominate=True)]
    assert office.ends == [("a", True, 200)]


async def test_an_order_that_comes_while_one_is_under_way_follows_it() -> None:
    going = asyncio.Event()

    async def work(order: Order) -> Step:
        if getattr(order, "node", None) == "n1":
            await going.wait()
        return DONE

    office = Office(work)
    async with running(office.lanes.run()):
        office.lanes.submit(release("a", "n1"))
        await until(lambda: len(office.started) == 1)
        office.lanes.submit(nominate("a", "n2"))
        going.set()
        await until(lambda: len(office.ends) == 2)
    assert office.started == [release("a", "n1"), nominate("a", "n2")]


async def test_what_is_forgotten_is_neither_done_nor_reported() -> None:
    going = asyncio.Event()

    async def work(order: Order) -> Step:
        await going.wait()
        return AGAIN if getattr(order, "node", None) == "n1" else DONE

    office = Office(work, LaneSettings(workers=1, attempts=5, backoff_first_s=0.01))
    async with running(office.lanes.run()):
        office.lanes.submit(release("under-way"))
        office.lanes.submit(release("waits"))
        office.lanes.submit(release("returns"))
        await until(lambda: len(office.started) == 1)
        office.lanes.clear()
        office.lanes.submit(release("returns", "n2"))
        going.set()
        await until(lambda: len(office.lanes) == 0)
    assert [order.uid for order in office.started] == ["under-way", "returns"]
    assert office.ends == [("under-way", False, 500), ("returns", True, 200)]


async def test_errors_of_ours_end_no_worker() -> None:
    async def broken(_: Order) -> Step:
        raise ZeroDivisionError

    ends: list[str] = []

    def done(uid: str, ok: bool, status: int) -> None:
        ends.append(uid)
        raise ValueError("not taken")

    lanes = Lanes(broken, done, LaneSettings(workers=1))
    async with running(lanes.run()):
        lanes.submit(release("a"))
        lanes.submit(release("b"))
        await until(lambda: ends == ["a", "b"])


@pytest.mark.parametrize(
    ("old", "new", "both"),
    [
        (release("a", "n1"), release("a", "n2"), release("a", "n2")),
        (release("a", "n1"), nominate("a", "n2"), release("a", "n2", nominate=True)),
        (nominate("a", "n1"), nominate("a", "n2"), nominate("a", "n2")),
        (nominate("a", "n1"), release("a", "n2"), release("a", "n2")),
        (None, release("a"), release("a")),
        (release("a"), None, release("a")),
    ],
)
def test_two_orders_for_one_pod(old: Order | None, new: Order | None, both: Order) -> None:
    assert newer(old, new) == both
