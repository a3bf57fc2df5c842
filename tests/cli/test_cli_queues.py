"""`tangram queues`, `tangram queue top`, and the lines of `tangram explain` about queues."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_api.cli import queue_lines
from extender_api.cli.main import main
from queues.amounts import UNLIMITED
from queues.spec import QueueSpec, Terms
from tests.cli.conftest import OpsServer
from tests.engine.world import pod
from tests.service.hands import Stage

QUEUE = "tangram.scheduler/queue"


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    out, err = capsys.readouterr()
    return status, out, err


def two_teams(stage: Stage) -> None:
    stage.service.set_queues(
        (
            QueueSpec("department", gpu=Terms(3000, 4000)),
            QueueSpec("red", "department", gpu=Terms(1000), strict_fifo=True),
            QueueSpec("blue", "department", gpu=Terms(2000), cordoned=True),
        )
    )
    stage.create(pod("a", whole=2, labels={QUEUE: "red"}))
    stage.engine.plan(stage.clock.now_ms)
    stage.create(pod("b", whole=3, labels={QUEUE: "red"}))
    stage.engine.plan(stage.clock.now_ms)


def test_the_tree_with_bars(ops: OpsServer, capsys: pytest.CaptureFixture[str]) -> None:
    ops.on_loop(two_teams)
    status, out, err = said(capsys, "queues", "--server", ops.url)
    assert (status, err) == (0, "")
    head, department, *teams = out.splitlines()
    assert head.split() == ["QUEUE", "GPUS", "USED", "SHARE", "QUOTA", "LIMIT", "WAITING"]
    assert department.split()[0] == "department"
    assert department.split()[2:] == ["2", "4", "3", "4", "1"]
    red = next(line for line in teams if "red" in line)
    assert red.startswith("  red")
    assert red.endswith("(strict)")
    assert "█" in red
    assert "▓" in red, "what is used beyond the quota is told apart"
    assert next(line for line in teams if "blue" in line).endswith("(cordoned)")


def test_what_is_wrong_is_said_and_is_the_exit_status(ops: OpsServer, capsys: pytest.CaptureFixture[str]) -> None:
    ops.on_loop(lambda stage: stage.service.set_queues((QueueSpec("a"), QueueSpec("b", "gone"))))
    status, out, _ = said(capsys, "queues", "--server", ops.url)
    assert status == 1
    assert "! queue b: left out, with all below it: queue gone, the parent of b, does not exist" in out


def test_without_queues_that_is_said(ops: OpsServer, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = said(capsys, "queues", "--server", ops.url)
    assert status == 0
    assert out.startswith("no Queues are defined: everything is in one, unlimited\n")


def test_for_programs(ops: OpsServer, capsys: pytest.CaptureFixture[str]) -> None:
    ops.on_loop(two_teams)
    _, out, _ = said(capsys, "queues", "--server", ops.url, "-o", "json")
    assert {queue["name"] for queue in json.loads(out)["queues"]} == {"department", "red", "blue"}
    _, out, _ = said(capsys, "queue", "top", "--server", ops.url, "-o", "json")
    assert {queue["name"] for queue in json.loads(out)} == {"red", "blue"}


def test_top_looks_once_where_nobody_watches(ops: OpsServer, capsys: pytest.CaptureFixture[str]) -> None:
    ops.on_loop(two_teams)
    status, out, err = said(capsys, "queue", "top", "--server", ops.url)
    assert (status, err) == (0, "")
    head, first, second = out.splitlines()
    assert head.split()[:3] == ["QUEUE", "GPUS", "OF"]
    assert first.split()[:2] == ["red", "2"]
    assert second.split()[:2] == ["blue", "0"]


def test_a_wait_level_by_level(ops: OpsServer, capsys: pytest.CaptureFixture[str]) -> None:
    ops.on_loop(two_teams)
    status, out, _ = said(capsys, "explain", "b", "--server", ops.url)
    assert status == 1
    lines = [line.strip() for line in out.splitlines()]
    assert any(line.startswith("reason") and "queue department would exceed its GPU limit" in line for line in lines)
    assert "queue    red" in lines
    assert any(line.startswith("level    red: GPU 3 asked, 2 in use, quota 1, limit ∞") for line in lines)
    assert any(line.startswith("level    department: GPU 3 asked, 2 in use, quota 3, limit 4") for line in lines)
    assert any(line.startswith("needs    work of queue department has to give back 1 GPU") for line in lines)
    assert any(line.startswith("start    unknown") for line in lines)


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (None, "unknown"),
        ({"lowMs": 90_000, "highMs": None}, "not before 90 s from now"),
        ({"lowMs": 600_000, "highMs": 7_200_000}, "in 10 min to 2 h"),
    ],
)
def test_when_it_starts(span: dict[str, int | None] | None, words: str) -> None:
    assert words in queue_lines.start(span)


@given(
    used=st.integers(0, 100_000),
    share=st.integers(0, 100_000),
    quota=st.one_of(st.just(UNLIMITED), st.integers(0, 100_000)),
    most=st.integers(0, 100_000),
)
def test_bars_have_one_width_whatever_they_show(used: int, share: int, quota: int, most: int) -> None:
    queue = {"allocated": {"gpuMilli": used}, "quota": {"gpuMilli": quota}, "fairShare": {"gpuMilli": share}}
    bar = queue_lines.bar(queue, max(most, used, share, quota))
    assert len(bar) == queue_lines.BAR_WIDTH
    assert ("█" in bar or "▓" in bar) == (used > 0)
