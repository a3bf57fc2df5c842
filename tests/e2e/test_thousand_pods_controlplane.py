"""A thousand mixed pods on 200 nodes, with and without a kill -9 of Tangram in their middle."""

from __future__ import annotations

import random
import time
from typing import Final

import pytest

from tests.controlplane.fake_nodes import FakeNodes
from tests.controlplane.kube import Kube
from tests.controlplane.kube_scheduler import KubeScheduler
from tests.controlplane.node_agent import GPU_UUIDS
from tests.controlplane.node_models import A100, H100, L4, T4, FakeNode, gpu_node
from tests.controlplane.resources import PODS, Objects
from tests.controlplane.tangram_process import TangramProcess
from tests.controlplane.waiting import eventually
from tests.e2e import books
from tests.e2e.conftest import Measured
from tests.e2e.ops import Ops
from tests.e2e.packing import least_devices, sizes_of
from tests.e2e.pods import fraction, memory, whole, within
from tests.e2e.watching import in_phase

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(900)]

MODELS: Final = (A100, H100, L4, T4)
DEVICES: Final = 8
SEED: Final = 20261130
MEMORIES_MIB: Final = (4000, 8000, 16_000, 24_000, 40_000)
WORST_PACKING: Final = 1.05
"""Devices touched by shares, as a multiple of the least that any packing needs."""


def cluster() -> list[FakeNode]:
    return [gpu_node(f"n{number:03}", MODELS[number % len(MODELS)], devices=DEVICES) for number in range(200)]


def mixed_pods(chance: random.Random) -> Objects:
    """1,000 pods in the order of their creation: 300 ask for whole devices, 700 for shares."""
    pods: Objects = []
    for count, number in ((1, 150), (2, 80), (4, 45), (8, 25)):
        pods += [whole(f"whole-{count}-{index}", count) for index in range(number)]
    pods += [fraction(f"fraction-{index}", f"0.{chance.randint(1, 9)}") for index in range(500)]
    pods += [memory(f"memory-{index}", chance.choice(MEMORIES_MIB)) for index in range(100)]
    pods += [fraction(f"twice-a-half-{index}", "0.5", devices=2) for index in range(100)]
    chance.shuffle(pods)
    return pods


@pytest.mark.parametrize("killed", [False, True], ids=["undisturbed", "killed"])
def test_all_of_a_thousand_mixed_pods_run(
    kube: Kube,
    namespace: str,
    fake_nodes: FakeNodes,
    tangram: TangramProcess,
    kube_scheduler: KubeScheduler,
    measured: Measured,
    killed: bool,
) -> None:
    fake_nodes.create(*cluster())
    ops = Ops(tangram)
    eventually(lambda: ops.status()["nodes"] == 200, "Tangram knows the nodes")
    pods = within(namespace, *mixed_pods(random.Random(SEED)))

    started = time.monotonic()
    creation = kube.loop.submit(kube.client.create_all(pods))
    if killed:
        eventually(lambda: len(in_phase(kube, namespace, "Running")) >= 200, "the work is in its middle", 200, 0.2)
        tangram.kill()
        assert len(in_phase(kube, namespace, "Running")) < 1000
        tangram.process.start()
    creation.result(timeout=200)
    created = time.monotonic()
    eventually(lambda: len(in_phase(kube, namespace, "Running")) == 1000, "all run", timeout_s=400, every_s=1.0)
    done = time.monotonic()

    assert not fake_nodes.refusals
    books.agree(kube, ops)
    touched = _devices_with_shares(kube.list(PODS, namespace))
    least = least_devices(sizes_of(pods, [model.memory_mib for model in MODELS]))
    measured(f"shares touch {touched} devices, no packing has fewer than {least} ({touched / least - 1:+.1%})")
    measured(
        f"1,000 pods run {done - started:.1f} s after the first was created, {done - created:.1f} s after the last"
    )
    assert touched <= WORST_PACKING * least


def _devices_with_shares(pods: Objects) -> int:
    shares = [pod for pod in pods if GPU_UUIDS in pod["metadata"].get("annotations", {})]
    return len({(holding.node, holding.device) for holding in books.holdings(shares)})
