"""The policies of the literature in the openb experiments: where pods go is known, to the place."""

from __future__ import annotations

from zlib import crc32

import pytest

from scheduler.packing.named import policy_named
from scheduler.simulate.forms import PodForms
from scheduler.simulate.loss_site import LossSite
from scheduler.simulate.openb import inflation
from scheduler.simulate.run import Simulation


def places(policy: str, count: int) -> list[int]:
    """Where the first pods of `default`, seed 42, go."""
    scenario = inflation("default", 42)
    site = LossSite(scenario, policy_named(policy), None, PodForms(scenario.inventory.device_resources))
    for job in scenario.jobs[:count]:
        assert site.arrive(job, 0)
    return [int(started.places[0].node.partition("-")[0]) for started in site.settle(0)]


@pytest.mark.parametrize(
    ("policy", "first", "nodes", "digest"),
    [
        ("dotprod", [6, 37, 12, 8, 9, 8, 6, 24], 168, 1235411871),
        ("bestfit", [37, 137, 12, 6, 8, 8, 170, 9], 161, 2048225253),
        ("gpu-packing", [0, 37, 943, 1197, 4, 4, 137, 6], 131, 2583010250),
        ("gpu-clustering", [0, 37, 943, 1197, 4, 137, 170, 6], 133, 3583228490),
        ("fgd", [0, 37, 0, 0, 0, 137, 170, 0], 63, 3990382348),
    ],
)
def test_the_first_places_are_those_of_plain_loops(policy: str, first: list[int], nodes: int, digest: int) -> None:
    """Loops that share nothing with this code gave them, and the published allocation at their end."""
    found = places(policy, 300)
    assert found[:8] == first
    assert len(set(found)) == nodes
    assert crc32(" ".join(map(str, found)).encode()) == digest


def test_the_end_of_fgd_is_known_to_the_unit() -> None:
    result = Simulation(inflation("default", 42), policy_named("fgd"), "fgd").run()
    assert result.allocated_gpu_milli == 5_919_410
    assert (sum(job.lost for job in result.jobs), len(result.jobs)) == (2532, 10_866)
