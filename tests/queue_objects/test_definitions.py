"""The definitions that are shipped are those that the models give, in the form that the API server takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender_api.crd import KEPT, Definition
from extender_api.pod_group_objects.crd import POD_GROUP
from extender_api.queue_objects.crd import QUEUE
from extender_api.topology_objects.crd import TOPOLOGY

BASE = Path(__file__).resolve().parents[2] / "manifests" / "base"
DEFINITIONS = {"queue": QUEUE, "topology": TOPOLOGY, "podgroup": POD_GROUP}
each = pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_the_shipped_definition_is_the_generated_one(name: str) -> None:
    definition = DEFINITIONS[name]
    shipped = (BASE / f"{name}-crd.yaml").read_text("utf-8")
    assert shipped == definition.text(), f"python -m {definition.made_by} > manifests/base/{name}-crd.yaml"
    assert yaml.safe_load(shipped) == definition.document()
    (kustomization,) = yaml.safe_load_all((BASE / "kustomization.yaml").read_text("utf-8"))
    assert f"{name}-crd.yaml" in kustomization["resources"]


@each
def test_the_module_prints_it(definition: Definition) -> None:
    done = subprocess.run([sys.executable, "-m", definition.made_by], capture_output=True, text=True, check=True)
    assert done.stdout == definition.text()


def schema(definition: Definition) -> dict[str, Any]:
    (version,) = definition.document()["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


@each
def test_every_field_is_there_and_explained(definition: Definition) -> None:
    spec = schema(definition)["properties"]["spec"]["properties"]
    assert list(spec) == list(definition.spec.model_fields)
    for name, found in spec.items():
        assert found.get("description"), name


@each
def test_nothing_that_the_api_server_does_not_take(definition: Definition) -> None:
    def walk(found: dict[str, Any]) -> None:
        keys = {key for key in found if not key.startswith("x-kubernetes-")}
        assert keys <= KEPT | {"description", "default", "properties", "items", "additionalProperties"}
        assert not {"properties", "additionalProperties"} <= keys
        for inner in found.get("properties", {}).values():
            walk(inner)
        for key in ("items", "additionalProperties"):
            if key in found:
                walk(found[key])

    walk(schema(definition))
