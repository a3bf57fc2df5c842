from __future__ import annotations

import pytest

from scheduler.kernels.arrays import Rules
from scheduler.policy import PlacementPolicy, PolicyError, Strategy


def test_names_make_a_policy() -> None:
    assert PlacementPolicy.from_names() == PlacementPolicy()
    policy = PlacementPolicy.from_names(gpu="spread", device="spread")
    assert policy == PlacementPolicy(gpu=Strategy.SPREAD, device=Strategy.SPREAD)
    assert policy.rules == Rules(cpu_spread=0, gpu_spread=1, device_spread=1)


def test_an_unknown_name_is_told_with_those_that_exist() -> None:
    with pytest.raises(PolicyError, match='gpu "random" is no placement policy: binpack, spread are'):
        PlacementPolicy.from_names(gpu="random")
