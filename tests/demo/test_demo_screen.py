"""What the demo shows and what it ends with."""

from __future__ import annotations

import io
from collections import Counter

import pytest
from rich.console import Console

from extender_api.demo.accounts import Accounts, DeviceUse, NodeUse
from extender_api.demo.embedded import EmbeddedCluster
from extender_api.demo.objects import pod
from extender_api.demo.recorder import PLANNING, WITH_SCHEDULER, Recorder
from extender_api.demo.screen import Frame, LiveScreen, PlainScreen, bar, picture, screen_for
from extender_api.demo.stock import CallTimes
from extender_api.demo.summary import Usage, percentile, print_summary, sum_up

SMALL = {"cpu": "1", "memory": "1Gi"}


def use(*devices: tuple[int, int]) -> NodeUse:
    """A node whose devices of 1,000 MiB hold (milli, MiB)."""
    return NodeUse(len(devices), 1000, [DeviceUse(*device) for device in devices])


def frame(elapsed_s: float = 1.0) -> Frame:
    nodes = {"n1": use((0, 0), (500, 500), (1000, 1000)), "far": NodeUse(4, 0, [], counted=3)}
    return Frame(
        elapsed_s,
        5,
        9,
        3,
        2,
        1,
        nodes,
        {"n1": "L4", "far": "virtual"},
        Counter({"too few GPUs": 2}),
        {"too few GPUs": "p1: needs 4"},
    )


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def console(*, terminal: bool = False) -> Console:
    return Console(file=io.StringIO(), width=120, force_terminal=terminal, highlight=False)


@pytest.mark.parametrize(
    ("device", "expected"),
    [((0, 0), " "), ((1, 1), "▁"), ((500, 100), "▄"), ((0, 500), "▄"), ((999, 0), "▇"), ((1000, 1000), "█")],
)
def test_a_device_is_as_tall_as_the_fuller_of_compute_and_memory(device: tuple[int, int], expected: str) -> None:
    assert bar(use(device)) == expected


def test_a_virtual_node_only_counts() -> None:
    assert bar(NodeUse(4, 0, [], counted=3)) == "3/4"


def test_plain_lines_come_now_and_then_and_say_why_pods_wait() -> None:
    target = console()
    with PlainScreen(target, every_s=5) as screen:
        for elapsed in (0.0, 1.0, 4.9, 5.1, 6.0):
            screen.show(frame(elapsed))
    lines = shown(target).splitlines()
    assert len(lines) == 4
    assert "5/9 created  3 placed  2 running  1 ended  2 waiting" in lines[0]
    assert "n1:[ ▄█] far:[3/4]" in lines[0]
    assert lines[1].strip() == "2 waiting: too few GPUs (p1: needs 4)"


def test_the_live_screen_shows_nodes_and_reasons() -> None:
    target = console(terminal=True)
    with LiveScreen(target) as screen:
        screen.show(frame())
    text = shown(target)
    for part in ("n1", "L4", "1.5 of 3", "3 of 4".replace("3 of", "3.0 of"), "counted only", "too few GPUs"):
        assert part in text


def test_the_screen_fits_the_output() -> None:
    assert isinstance(screen_for(console(terminal=True)), LiveScreen)
    assert isinstance(screen_for(console()), PlainScreen)


def test_an_empty_frame_can_be_drawn() -> None:
    target = console()
    target.print(picture(Frame(0, 0, 0, 0, 0, 0, {}, {})))
    assert "wait because" in shown(target)


async def test_the_recorder_knows_where_each_pod_is() -> None:
    cluster = EmbeddedCluster()
    recorder = Recorder(lambda uid, message: cluster.told.get(uid, message))
    for kind, name in (("gated", "a"), ("told", "b"), ("released", "c")):
        uid = cluster.create_pod(pod(name, SMALL))
        if kind == "told":
            cluster.tell(uid, "full")
            cluster.set_condition(uid, reason="SchedulingGated", message="no room")
        if kind == "released":
            cluster.ungate(uid)
    cluster.watch(recorder.changed)
    assert recorder.waiting() == {PLANNING: 1, "full": 1, WITH_SCHEDULER: 1}
    assert recorder.examples() == {"full": "b: no room"}
    assert recorder.waited() == {"full": 1}
    assert (recorder.created, recorder.placed, recorder.ended) == (3, 0, 0)


def test_the_summary_tells_the_lost_from_the_impossible() -> None:
    cluster = EmbeddedCluster()
    recorder = Recorder(lambda uid, message: cluster.told.get(uid, message))
    lost, impossible = (cluster.create_pod(pod(name, SMALL)) for name in ("lost", "impossible"))
    cluster.set_condition(impossible, reason="SchedulingGated", message="a fraction must be below 1")
    cluster.watch(recorder.changed)
    times = CallTimes()
    times.seconds["filter"] = [0.001, 0.002]
    summary = sum_up(recorder, Accounts(), Usage([0.5, 1.0]), times, frozenset({impossible}))
    assert not summary.ok
    assert list(summary.lost) == ["lost"]
    assert summary.impossible == {"impossible": "a fraction must be below 1"}
    assert summary.calls == {"filter": (2, 1000.0, 2000.0)}
    target = console()
    print_summary(target, summary)
    text = shown(target)
    assert "0 of 2" in text
    assert "75% on average while pods came, 100% at most" in text
    assert "impossible: a fraction must be below 1" in text
    assert lost in recorder.stories


def test_percentiles_of_nothing_are_zero() -> None:
    assert percentile([], 99) == 0
    assert percentile([1.0, 2.0, 3.0], 50) == 2.0
