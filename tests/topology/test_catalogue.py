"""Product names and the memory that belongs to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import catalogue
from topology.catalogue import CatalogueError


@pytest.mark.parametrize(
    ("label", "product"),
    [
        ("NVIDIA-A100-SXM4-40GB", "A100-SXM4-40GB"),
        ("A100-SXM4-40GB-MIG-1g.5gb", "A100-SXM4-40GB"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED", "A100-SXM4-40GB"),
        ("NVIDIA-H100-80GB-HBM3-SHARED", "H100-80GB-HBM3"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB-HBM3"),
        ("Tesla-T4", "T4"),
        ("Tesla-T4-SHARED", "T4"),
        ("nvidia-tesla-t4", "T4"),
        ("nvidia-a100-80gb", "A100-80GB"),
        ("nvidia-h100-mega-80gb", "H100-MEGA-80GB"),
        ("AMD_Instinct_MI300X_OAM", "MI300X-OAM"),
        ("Max_1550", "MAX-1550"),
        ("  NVIDIA  L4 ", "L4"),
        ("Tesla", "TESLA"),
        ("", ""),
    ],
)
def test_names_are_normalised(label: str, product: str) -> None:
    assert catalogue.normalise(label) == product


@given(st.text(max_size=40))
def test_normalising_again_changes_nothing(label: str) -> None:
    once = catalogue.normalise(label)
    assert catalogue.normalise(once) == once


@pytest.mark.parametrize(
    ("label", "mib"),
    [
        ("NVIDIA-A100-SXM4-40GB", 39538),
        ("NVIDIA-A100-PCIE-40GB", 39538),
        ("nvidia-tesla-a100", 39538),
        ("nvidia-a100-80gb", 80994),
        ("NVIDIA-A100-SXM4-80GB", 81251),
        ("NVIDIA-H100-80GB-HBM3", 81559),
        ("nvidia-h100-80gb", 81559),
        ("nvidia-h100-mega-80gb", 81559),
        ("NVIDIA-H100-NVL", 95830),
        ("NVIDIA-H200", 143771),
        ("nvidia-h200-141gb", 143771),
        ("NVIDIA-B200", 183359),
        ("NVIDIA-GB200", 189471),
        ("NVIDIA-GB300", 284208),
        ("NVIDIA-L40S", 46068),
        ("NVIDIA-L4", 23034),
        ("nvidia-l4", 23034),
        ("NVIDIA-A10", 23028),
        ("NVIDIA-A10G", 23028),
        ("Tesla-T4", 15360),
        ("nvidia-tesla-t4", 15360),
        ("Tesla-V100-SXM2-16GB", 16160),
        ("Tesla-V100-SXM2-32GB", 32510),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 97887),
        ("AMD_Instinct_MI300X_OAM", 196592),
        ("Max_1550", 131072),
    ],
)
def test_known_products(label: str, mib: int) -> None:
    assert catalogue.memory_mib(catalogue.normalise(label)) == mib


@pytest.mark.parametrize(
    "label",
    ["NVIDIA-GB10", "AMD_Instinct_MI300A", "NVIDIA-H100", "NVIDIA-A40-8Q", "NVIDIA-L40S-48C", "L4000", "T400-4GB", ""],
)
def test_unknown_products(label: str) -> None:
    # unified memory, names that stand for several sizes, slices of a hypervisor, names that only begin alike
    assert catalogue.memory_mib(catalogue.normalise(label)) is None


def test_our_keys_are_normalised_and_never_promise_more_than_a_narrower_name() -> None:
    for key, mib in catalogue.MEMORY_MIB.items():
        assert catalogue.normalise(key) == key
        narrower = [other for other in catalogue.MEMORY_MIB if other != key and catalogue.matches(key, other)]
        assert all(mib <= catalogue.MEMORY_MIB[other] for other in narrower), key


def test_overrides_win_even_where_ours_is_more_specific() -> None:
    mine = catalogue.checked({"nvidia-a100": 40000, "Example Card": 1234})
    assert catalogue.memory_mib("A100-SXM4-40GB", mine) == 40000
    assert catalogue.memory_mib("EXAMPLE-CARD-V2", mine) == 1234
    assert catalogue.memory_mib("T4", mine) == 15360


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ({"T4": 15000, "Tesla-T4": 16000}, "both name the product T4"),
        ({"T4": 0}, "positive number of MiB, not 0"),
        ({"T4": -1}, "positive number"),
        ({"T4": True}, "positive number"),
        ({"  ": 1}, "is no product name"),
    ],
)
def test_a_wrong_catalogue_is_refused(entries: dict[str, int], why: str) -> None:
    with pytest.raises(CatalogueError, match=why):
        catalogue.checked(entries)


def test_a_key_names_whole_parts() -> None:
    assert catalogue.matches("A100", "A100")
    assert catalogue.matches("A100", "A100-SXM4-40GB")
    assert not catalogue.matches("A10", "A100-SXM4-40GB")
    assert not catalogue.matches("A100-SXM4-40GB", "A100")
