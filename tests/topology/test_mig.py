"""Names of MIG profiles and of the resources behind them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import mig
from topology.mig import MigProfile

# every profile name of the cards that have MIG, as their tools write it
ROWS = (
    "1g.6gb 2g.12gb 4g.24gb",
    "1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb",
    "1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "1g.12gb 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb",
    "3g.48gb 4g.48gb 7g.96gb",
    "1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb",
    "1g.36gb 2g.36gb 3g.72gb 4g.72gb 7g.144gb",
    "1g.23gb 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb",
    "1g.47gb 2g.47gb 3g.93gb 3g.95gb 4g.95gb 7g.186gb 7g.189gb",
    "1g.34gb 1g.67gb 2g.67gb 3g.135gb 7g.269gb",
    "2g.48gb 4g.96gb 3g.39gb 7g.79gb",
    "1g.5gb+me 1g.24gb+gfx 1g.24gb-me 1g.24gb+me.all 1c.3g.20gb",
)
NAMES = [name for row in ROWS for name in row.split()]


@pytest.mark.parametrize("name", NAMES)
def test_known_names_are_read_and_written_alike(name: str) -> None:
    profile = mig.parse_profile(name)
    assert profile is not None
    assert profile.name == name
    # the device plugin writes "." for "+" in resource names
    assert mig.profile_of("nvidia.com/mig-" + name.replace("+", ".")) == profile


@pytest.mark.parametrize(
    ("resource", "profile"),
    [
        ("nvidia.com/mig-1g.10gb", MigProfile(1, 10)),
        ("nvidia.com/mig-3g.20gb.shared", MigProfile(3, 20)),
        ("nvidia.com/mig-1g.5gb.me", MigProfile(1, 5, "+me")),
        ("nvidia.com/mig-1g.5gb.me.shared", MigProfile(1, 5, "+me")),
        ("nvidia.com/mig-1g.24gb.me.all", MigProfile(1, 24, "+me.all")),
        ("nvidia.com/mig-1g.24gb-me", MigProfile(1, 24, "-me")),
        ("nvidia.com/mig-7g.141gb", MigProfile(7, 141)),
        ("nvidia.com/mig-1c.3g.20gb", MigProfile(3, 20, instances=1)),
    ],
)
def test_profiles_of_resources(resource: str, profile: MigProfile) -> None:
    assert mig.profile_of(resource) == profile


@pytest.mark.parametrize(
    "text",
    ["", "1g", "1g.5", "g.5gb", "1g.gb", "0g.5gb", "1g.0gb", "1g.5gb+", "1g.5GB", "1.g5gb", "all-balanced", "INVALID",
     "1g.5gb me", "100g.5gb", "1g.5gb++me"],
)  # fmt: skip
def test_other_names_are_no_profiles(text: str) -> None:
    assert mig.parse_profile(text) is None
    assert mig.profile_of("nvidia.com/mig-" + text) is None


@given(st.integers(1, 99), st.integers(1, 9999), st.sampled_from(["", "+me", "-me", "+gfx", "+me.all"]))
def test_round_trip(slices: int, gb: int, variant: str) -> None:
    profile = MigProfile(slices, gb, variant)
    assert mig.parse_profile(profile.name) == profile


def test_only_mig_resources_are_instances() -> None:
    amounts = {"cpu": 4000, "nvidia.com/gpu": 2, "nvidia.com/mig-1g.5gb": 7, "nvidia.com/mig-3g.20gb": 0}
    assert mig.instances(amounts) == {"nvidia.com/mig-1g.5gb": 7}
    assert mig.profile_of("nvidia.com/gpu") is None
    assert not mig.is_mig_resource("nvidia.com/gpu.shared")
