"""Tangram is killed at several moments of a gang's way: afterwards the gang is whole, or nothing of it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import pytest

from tests.controlplane.fake_nodes import FakeNodes
from tests.controlplane.kube import Kube
from tests.controlplane.resources import PODS
from tests.controlplane.tangram_process import TangramProcess
from tests.controlplane.waiting import eventually
from tests.e2e import books
from tests.e2e.conftest import Measured
from tests.e2e.gangs import Sightings, members, pod_group, racks, watched
from tests.e2e.ops import Ops
from tests.e2e.pods import within
from tests.e2e.watching import in_phase, running

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.timeout(400),
    pytest.mark.usefixtures("kube_scheduler"),
]

SIZE: Final = 48
MOMENTS: Final[dict[str, Callable[[Sightings, str], bool]]] = {
    "some are released": lambda seen, group: len(seen.released[group]) >= SIZE // 4,
    "all are released": lambda seen, group: len(seen.released[group]) == SIZE,
    "one is bound": lambda seen, group: len(seen.bound[group]) >= 1,
    "half are bound": lambda seen, group: len(seen.bound[group]) >= SIZE // 2,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_gang_is_whole_after_a_kill(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess, measured: Measured, moment: str
) -> None:
    fake_nodes.create(*racks(SIZE, per_rack=8, per_block=4))
    eventually(lambda: Ops(tangram).status()["nodes"] == SIZE, "Tangram knows the nodes")
    reached = MOMENTS[moment]
    with watched(kube, SIZE) as seen:
        kube.create(pod_group(namespace, "gang", SIZE))
        creation = kube.loop.submit(kube.client.create_all(within(namespace, *members("gang", SIZE, 8))))
        eventually(lambda: reached(seen, "gang"), moment, every_s=0.001)
        tangram.kill()
        killed = time.monotonic()
        creation.result(timeout=60)
        bound = len([pod for pod in kube.list(PODS, namespace) if pod["spec"].get("nodeName")])
        tangram.start()
        found = running(kube, namespace, *(f"gang-{at:03}" for at in range(SIZE)), timeout_s=200)
        measured(f"killed when {bound} of {SIZE} were bound; all run {time.monotonic() - killed:.1f} s later")
    assert not seen.bound_twice
    assert not seen.torn
    assert len({pod["spec"]["nodeName"] for pod in found}) == SIZE
    books.agree(kube, Ops(tangram))


def test_a_gang_whose_room_went_while_nobody_looked_waits_as_a_whole(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess
) -> None:
    fake_nodes.create(*racks(SIZE, per_rack=8, per_block=4))
    eventually(lambda: Ops(tangram).status()["nodes"] == SIZE, "Tangram knows the nodes")
    with watched(kube, SIZE) as seen:
        kube.create(pod_group(namespace, "gang", SIZE))
        kube.loop.submit(kube.client.create_all(within(namespace, *members("gang", SIZE, 8)))).result(timeout=60)
        eventually(lambda: len(seen.released["gang"]) > 0, "some are released", every_s=0.001)
        tangram.kill()
        lost = not seen.sizes()
        if lost:
            fake_nodes.remove("n000")
        tangram.start()
        if lost:
            reason = "GANG_DOES_NOT_FIT"
            eventually(
                lambda: (Ops(tangram).workload(namespace, "gang-000")["reason"] or {}).get("code") == reason,
                "it says why",
                120,
            )
            assert not in_phase(kube, namespace, "Running")
        else:
            running(kube, namespace, *(f"gang-{at:03}" for at in range(SIZE)), timeout_s=200)
    assert not seen.torn
