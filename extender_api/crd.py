"""CustomResourceDefinitions of our kinds, made from the models of their specs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml
from pydantic import BaseModel

from extender_api.spec_model import GROUP, VERSION, Json, rules

DEFINITION: Final = "CustomResourceDefinition"
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


@dataclass(frozen=True, slots=True)
class Definition:
    """A kind of ours. `made_by` is the module that prints it; `notes` are lines above it, for administrators.

    `rules` are those about the whole object: (rule in CEL, message).
    """

    kind: str
    plural: str
    short: str
    description: str
    spec: type[BaseModel]
    columns: tuple[tuple[str, str, str], ...]
    """Name, type and path of what `kubectl get` shows."""
    made_by: str
    notes: tuple[str, ...]
    namespaced: bool = False
    status: type[BaseModel] | None = None
    rules: tuple[tuple[str, str], ...] = ()
    spec_required: bool = False

    @property
    def name(self) -> str:
        """The name of the definition itself."""
        return f"{self.plural}.{GROUP}"

    def document(self) -> Json:
        """The whole object."""
        columns = [{"name": name, "type": kind, "jsonPath": path} for name, kind, path in self.columns]
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": DEFINITION,
            "metadata": {"name": self.name, "labels": {"app.kubernetes.io/part-of": "tangram"}},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced" if self.namespaced else "Cluster",
                "names": {
                    "kind": self.kind,
                    "listKind": f"{self.kind}List",
                    "plural": self.plural,
                    "singular": self.kind.lower(),
                    "shortNames": [self.short],
                    "categories": ["tangram"],
                },
                "versions": [
                    {
                        "name": VERSION,
                        "served": True,
                        "storage": True,
                        **({} if self.status is None else {"subresources": {"status": {}}}),
                        "additionalPrinterColumns": columns,
                        "schema": {"openAPIV3Schema": self._schema()},
                    }
                ],
            },
        }

    def text(self) -> str:
        """The definition as it is shipped."""
        package = self.made_by.rpartition(".")[0].replace(".", "/")
        head = (f"Made from the models in {package} by `python -m {self.made_by}`: change them there.", *self.notes)
        body = yaml.dump(self.document(), Dumper=_Dumper, sort_keys=False, width=118, allow_unicode=True)
        return "".join(f"# {line}\n" for line in head) + body

    def _schema(self) -> Json:
        properties: Json = {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural(self.spec),
        }
        if self.status is not None:
            properties["status"] = structural(self.status)
        return {
            "type": "object",
            "description": self.description,
            **({"required": ["spec"]} if self.spec_required else {}),
            "properties": properties,
            **(rules(*self.rules) if self.rules else {}),
        }


class _Dumper(yaml.SafeDumper):
    """Nothing is written as a reference to what stands elsewhere."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


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
