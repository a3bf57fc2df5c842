"""Keys of GPU models in queues, against the product labels that nodes carry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import gpu_model

WORDS = st.lists(st.sampled_from(["NVIDIA", "tesla", "H100", "A100", "SXM4", "80GB", "x"]), min_size=1, max_size=5)
NAMES = WORDS.map("-".join)


@pytest.mark.parametrize(
    ("key", "product"),
    [
        ("H100", "NVIDIA-H100-80GB-HBM3"),
        ("h100", "NVIDIA-H100-80GB-HBM3"),
        ("H100", "NVIDIA-H100-NVL"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3"),
        ("H100-80GB", "NVIDIA-H100-80GB-HBM3-SHARED"),
        ("A100", "NVIDIA-A100-SXM4-40GB"),
        ("A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"),
        ("nvidia_a100_sxm4", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED"),
        ("A100", "nvidia-a100-80gb"),  # GKE
        ("T4", "Tesla-T4"),
        ("Tesla-T4", "nvidia-tesla-t4"),
        ("L40S", "NVIDIA-L40S"),
        ("GeForce RTX 4090", "NVIDIA-GeForce-RTX-4090"),
        ("MI300X", "AMD_Instinct_MI300X_OAM"),
        ("NVIDIA-H200", "NVIDIA-H200-SHARED"),
    ],
)
def test_a_key_names_a_product_whole_or_by_its_leading_parts(key: str, product: str) -> None:
    assert gpu_model.matches(key, product)


@pytest.mark.parametrize(
    ("key", "product"),
    [
        ("H100", "NVIDIA-H1000"),
        ("L40", "NVIDIA-L40S"),
        ("A10", "NVIDIA-A100-SXM4-40GB"),
        ("A10", "NVIDIA-A10G"),
        ("80GB", "NVIDIA-H100-80GB-HBM3"),
        ("H100-80GB-HBM3", "NVIDIA-H100-NVL"),
        ("H100-80GB-HBM3-X", "NVIDIA-H100-80GB-HBM3"),
        ("", "NVIDIA-L4"),
        ("NVIDIA", "NVIDIA-L4"),
        ("L4", ""),
    ],
)
def test_other_products_are_others(key: str, product: str) -> None:
    assert not gpu_model.matches(key, product)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("H100", "H100-80GB", True),
        ("nvidia-h100", "H100", True),
        ("H100-80GB", "H100-NVL", False),
        ("A100", "H100", False),
        ("L40", "L40S", False),
    ],
)
def test_keys_overlap_when_one_product_can_match_both(left: str, right: str, expected: bool) -> None:
    assert gpu_model.overlap(left, right) is expected
    assert gpu_model.overlap(right, left) is expected


@given(NAMES, NAMES, NAMES)
def test_keys_that_match_one_product_overlap(left: str, right: str, product: str) -> None:
    if gpu_model.matches(left, product) and gpu_model.matches(right, product):
        assert gpu_model.overlap(left, right)


@given(NAMES, NAMES)
def test_it_makes_no_difference_whether_names_are_normalised_before(key: str, product: str) -> None:
    expected = gpu_model.matches(key, product)
    assert gpu_model.matches(gpu_model.normalise(key), product) is expected
    assert gpu_model.matches(key, gpu_model.normalise(product)) is expected
