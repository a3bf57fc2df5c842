"""The CustomResourceDefinition of our Queue, made from the models: `python -m extender_api.queue_objects.crd`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml
from pydantic import BaseModel

from extender_api.queue_objects.model import GROUP, NAME_RULE, PARENT_RULE, VERSION, QueueSpecModel, rules
from extender_api.queue_objects.status import QueueStatus

Json = dict[str, Any]

PLURAL: Final = "queues"
NAME: Final = f"{PLURAL}.{GROUP}"
HEADER: Final = """\
# Made from the models in extender_api/queue_objects by `python -m extender_api.queue_objects.crd`: change them there.
# Queue objects are optional: without any there is one queue, unlimited in everything.
# Deleting this definition deletes all Queue objects with it.
"""
COLUMNS: Final = (
    ("Parent", "string", ".spec.parent"),
    ("Priority", "integer", ".spec.priority"),
    ("GPU quota", "string", ".spec.resources.gpu.quota"),
    ("GPU limit", "string", ".spec.resources.gpu.limit"),
    ("GPU used", "string", ".status.allocated.gpu"),
    ("Waiting", "integer", ".status.waiting"),
    ("Age", "date", ".metadata.creationTimestamp"),
)
KEPT: Final = frozenset(
    {
        "type",
        "format",
        "enum",
        "required",
        "pattern",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    }
)
"""Keywords of JSON schema that mean the same in a structural schema."""


def document() -> Json:
    """The whole object."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/part-of": "tangram"}},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": "Queue",
                "listKind": "QueueList",
                "plural": PLURAL,
                "singular": "queue",
                "shortNames": ["tq"],
                "categories": ["tangram"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": path} for name, kind, path in COLUMNS
                    ],
                    "schema": {"openAPIV3Schema": _queue()},
                }
            ],
        },
    }


class _Dumper(yaml.SafeDumper):
    """Nothing is written as a reference to what stands elsewhere."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def text() -> str:
    """The definition as it is shipped."""
    return HEADER + yaml.dump(document(), Dumper=_Dumper, sort_keys=False, width=118, allow_unicode=True)


def _queue() -> Json:
    return {
        "type": "object",
        "description": "Who may have how much: a queue of a hierarchy. Workloads name a queue without children.",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural(QueueSpecModel),
            "status": structural(QueueStatus),
        },
        **rules(PARENT_RULE, NAME_RULE),
    }


def structural(model: type[BaseModel]) -> Json:
    """A model's schema in the form that the API server takes: no references, no alternatives, no nulls."""
    document = model.model_json_schema()
    return _schema(document, document.get("$defs", {}))


def _schema(found: Mapping[str, Any], definitions: Mapping[str, Any]) -> Json:
    flat = _flat(found, definitions)
    schema: Json = {}
    if "description" in flat:
        schema["description"] = " ".join(flat["description"].split())
    schema |= {key: value for key, value in flat.items() if key in KEPT or key.startswith("x-kubernetes-")}
    if flat.get("default") is not None:
        schema["default"] = flat["default"]
    if "properties" in flat:
        schema["properties"] = {name: _schema(inner, definitions) for name, inner in flat["properties"].items()}
    elif isinstance(flat.get("additionalProperties"), Mapping):
        schema["additionalProperties"] = _schema(flat["additionalProperties"], definitions)
    if "items" in flat:
        schema["items"] = _schema(flat["items"], definitions)
    return schema


def _flat(found: Mapping[str, Any], definitions: Mapping[str, Any]) -> Json:
    """The one schema behind a reference or an optional value. What stands beside it (a description) wins."""
    flat = dict(found)
    reference = flat.pop("$ref", None)
    if reference is not None:
        return {**_flat(definitions[reference.rpartition("/")[2]], definitions), **flat}
    options = [option for option in flat.pop("anyOf", ()) if option.get("type") != "null"]
    if not options or flat.get("x-kubernetes-int-or-string"):
        return flat
    (option,) = options
    return {**_flat(option, definitions), **flat}


if __name__ == "__main__":
    print(text(), end="")
