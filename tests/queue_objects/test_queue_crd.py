"""The definition that is shipped is the one that the models give, and a status is what the models say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from extender_api.queue_objects import crd, status
from extender_api.queue_objects.model import QueueSpecModel
from queues.amounts import UNLIMITED, Amounts
from topology import quantity

SHIPPED = Path(__file__).resolve().parents[2] / "manifests" / "base" / "queue-crd.yaml"


def test_the_shipped_definition_is_the_generated_one() -> None:
    assert SHIPPED.read_text("utf-8") == crd.text(), "python -m extender_api.queue_objects.crd > manifests/base/…"
    assert yaml.safe_load(crd.text()) == crd.document()


def test_the_module_prints_it() -> None:
    done = subprocess.run([sys.executable, "-m", crd.__name__], capture_output=True, text=True, check=True)
    assert done.stdout == crd.text()


def schema() -> dict[str, Any]:
    (version,) = crd.document()["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


def test_every_field_is_there_and_explained() -> None:
    spec = schema()["properties"]["spec"]["properties"]
    assert list(spec) == list(QueueSpecModel.model_fields)
    for name, found in spec.items():
        assert found.get("description"), name


def test_nothing_that_the_api_server_does_not_take() -> None:
    def walk(found: dict[str, Any]) -> None:
        keys = {key for key in found if not key.startswith("x-kubernetes-")}
        assert keys <= crd.KEPT | {"description", "default", "properties", "items", "additionalProperties"}
        assert not {"properties", "additionalProperties"} <= keys
        for inner in found.get("properties", {}).values():
            walk(inner)
        for key in ("items", "additionalProperties"):
            if key in found:
                walk(found[key])

    walk(schema())


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        (Amounts(0, 0, 0), {"gpu": "0", "cpu": "0", "memory": "0"}),
        (Amounts(1500, 1000, 4000), {"gpu": "4", "cpu": "1500m", "memory": "1000"}),
        (Amounts(2000, 3 << 30, 500), {"gpu": "500m", "cpu": "2", "memory": "3Gi"}),
        (Amounts(1, (1 << 40) + (1 << 20), 1), {"gpu": "1m", "cpu": "1m", "memory": "1048577Mi"}),
        (Amounts(UNLIMITED, UNLIMITED, UNLIMITED), {"gpu": "-1", "cpu": "-1", "memory": "-1"}),
    ],
)
def test_amounts_are_written_as_quantities(amounts: Amounts, expected: dict[str, str]) -> None:
    assert status.amounts(amounts) == expected


SIZES = st.integers(0, 1 << 50)


@given(SIZES, SIZES, SIZES)
def test_nothing_is_lost_in_writing(cpu_milli: int, memory_bytes: int, gpu_milli: int) -> None:
    written = status.amounts(Amounts(cpu_milli, memory_bytes, gpu_milli), {"H100": gpu_milli})
    assert quantity.parse(written["cpu"]) * 1000 == cpu_milli
    assert quantity.parse(written["memory"]) == memory_bytes
    assert quantity.parse(written["gpu"]) * 1000 == gpu_milli
    assert written["gpuModels"] == {"H100": written["gpu"]}
    assert status.AmountsStatus.model_validate(written)


def test_a_condition() -> None:
    found = status.condition("Ready", False, "ParentMissing", "its parent does not exist")
    assert found == {
        "type": "Ready",
        "status": "False",
        "reason": "ParentMissing",
        "message": "its parent does not exist",
    }
