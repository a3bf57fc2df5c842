"""Placement policies as settings say them."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from extender_api.core_settings import placement_policy
from extender_api.errors import SettingsError
from extender_api.settings import PolicyName
from extender_api.settings_sources import load
from scheduler.packing.named import NAMES
from scheduler.packing.pools import Pools
from scheduler.packing.rsv import Rsv
from scheduler.packing.settings import BALANCED, MAX
from scheduler.policy import PlacementPolicy, Strategy


def policy(**flags: Any) -> object:
    """The policy of `placement.KEY=VALUE` flags."""
    return placement_policy(load(flags={f"placement.{key}": value for key, value in flags.items()}).placement)


def test_settings_name_the_policies_that_there_are() -> None:
    assert get_args(PolicyName) == NAMES


def test_rsv_is_the_default() -> None:
    found = policy()
    assert isinstance(found, Rsv)
    assert found.settings == BALANCED
    other = policy(policy="rsv-max")
    assert isinstance(other, Rsv)
    assert other.settings == MAX


def test_parts_mix_packing_and_spreading() -> None:
    assert policy(gpu="spread") == PlacementPolicy(gpu=Strategy.SPREAD)
    assert policy(policy="spread", cpu="binpack") == PlacementPolicy(Strategy.BINPACK, Strategy.SPREAD, Strategy.SPREAD)


def test_parts_beside_another_policy_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"placement\.gpu is a part of the policies binpack and spread"):
        policy(policy="fgd", gpu="spread")


def test_pools_have_their_own() -> None:
    found = policy(pools='{"pool=inference": "spread", "dedicated": "rsv-max"}')
    assert isinstance(found, Pools)
    with pytest.raises(SettingsError, match=r"placement\.pools"):
        policy(pools='{"pool": "tetris"}')
