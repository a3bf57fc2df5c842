"""Planning in a process of its own: the same answers, and nobody else is kept waiting."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from extender_api import plan_service
from extender_api.plan_service import PlanBeside, PlanHere, PlanningBusy, PlanningEnded, PlanningTooLong
from scheduler.claim import DEFAULT_RULES
from tests.cluster.waiting import until
from tests.plan import documents

SMALL = {"objects": [documents.node("n1", 2), documents.pod("a", fraction="0.5")], "options": {"now": documents.NOW}}


def body(document: object) -> bytes:
    return json.dumps(document).encode()


def large() -> bytes:
    nodes = [documents.node(f"n{number:04}", 8) for number in range(300)]
    pods = [documents.pod(f"p{number:04}", gpus=1) for number in range(1500)]
    return body({"objects": [*nodes, *pods]})


@pytest.fixture
def beside() -> Iterator[PlanBeside]:
    plans = PlanBeside(documents.SETTINGS, DEFAULT_RULES)
    yield plans
    plans.close()


async def test_the_same_answers_as_in_this_process(beside: PlanBeside) -> None:
    here = PlanHere(documents.SETTINGS, DEFAULT_RULES)
    documents_: list[object] = [SMALL, {"objects": ["x"]}, []]
    for document in documents_:
        assert await beside.answer(body(document)) == await here.answer(body(document))
    assert (await beside.answer(b"{"))[0] == 400


async def test_the_loop_goes_on_while_much_is_planned(beside: PlanBeside) -> None:
    await beside.answer(body(SMALL))
    content = large()
    planning = asyncio.create_task(beside.answer(content))
    longest = 0.0
    while not planning.done():
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        longest = max(longest, time.perf_counter() - before)
    status, answer = await planning
    assert status == 200
    assert len(json.loads(answer)["placements"]) == 1500
    assert longest < 0.5, "a generous bound: here it would be the whole time of the plan"


async def test_a_process_that_dies_is_reported_and_replaced(beside: PlanBeside) -> None:
    await beside.answer(body(SMALL))
    (worker,) = multiprocessing.active_children()
    planning = asyncio.create_task(beside.answer(large()))
    await asyncio.sleep(0.05)
    worker.kill()
    with pytest.raises(PlanningEnded):
        await planning
    assert (await beside.answer(body(SMALL)))[0] == 200


async def test_few_documents_wait_and_more_are_refused_at_once(beside: PlanBeside) -> None:
    held = asyncio.Event()

    async def hold() -> None:
        async with beside._turn:
            await held.wait()

    holding = asyncio.create_task(hold())
    await asyncio.sleep(0)
    asked = [asyncio.create_task(beside.answer(body(SMALL))) for _ in range(plan_service.WAITING + 1)]
    await asyncio.sleep(0)
    with pytest.raises(PlanningBusy, match="5 documents wait to be planned already: try again later"):
        await beside.answer(body(SMALL))
    held.set()
    await holding
    assert [status for status, _ in await asyncio.gather(*asked)] == [200] * len(asked)
    assert (await beside.answer(body(SMALL)))[0] == 200, "there is room again"


async def test_planning_that_takes_too_long_is_ended_and_the_next_goes_on(beside: PlanBeside) -> None:
    await beside.answer(body(SMALL))
    (worker,) = multiprocessing.active_children()
    beside._limit_s = 0.05
    with pytest.raises(PlanningTooLong, match=r"longer than 0\.05 s"):
        await beside.answer(large())
    await until(lambda: not worker.is_alive())
    beside._limit_s = 60.0
    assert (await beside.answer(body(SMALL)))[0] == 200


async def test_who_asks_no_more_keeps_nobody_waiting(beside: PlanBeside) -> None:
    await beside.answer(body(SMALL))
    (worker,) = multiprocessing.active_children()
    impatient = asyncio.create_task(beside.answer(large()))
    await asyncio.sleep(0.05)
    impatient.cancel()
    await until(lambda: not worker.is_alive())
    assert (await beside.answer(body(SMALL)))[0] == 200


async def test_closing_ends_the_process_in_the_middle_of_work() -> None:
    plans = PlanBeside(documents.SETTINGS, DEFAULT_RULES)
    await plans.answer(body(SMALL))
    planning = asyncio.create_task(plans.answer(large()))
    await asyncio.sleep(0.05)
    plans.close()
    with pytest.raises((PlanningEnded, asyncio.CancelledError)):
        await planning
    await until(lambda: not multiprocessing.active_children())


def test_closing_what_never_started_does_nothing() -> None:
    PlanBeside(documents.SETTINGS, DEFAULT_RULES).close()


def test_the_process_does_not_outlive_its_parent(tmp_path: Path) -> None:
    """kill -9 of Tangram leaves nothing behind."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import asyncio, multiprocessing
        from extender_api.plan_service import PlanBeside
        from scheduler.claim import DEFAULT_RULES
        from topology.inventory import InventorySettings

        async def main():
            plans = PlanBeside(InventorySettings(), DEFAULT_RULES)
            await plans.answer(b"{}")
            print(multiprocessing.active_children()[0].pid, flush=True)
            await asyncio.sleep(60)

        if __name__ == "__main__":
            asyncio.run(main())
        """)
    )
    parent = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
    assert parent.stdout is not None
    with parent, parent.stdout:
        worker = int(parent.stdout.readline())
        os.kill(worker, 0)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and _alive(worker):
        time.sleep(0.05)
    assert not _alive(worker)


def _alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has asked about does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
