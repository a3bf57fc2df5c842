"""Topologies of every kind as the planner takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from extender_api.cluster.fields import DecodeError, FieldError, first_problem
from extender_api.spec_model import API_VERSION
from extender_api.topology_objects.model import TopologySpecModel
from topology import vocabulary
from topology.domains import PRESETS, LevelError, preset
from topology.topology import Topology

Object = Mapping[str, Any]
Spec = TypeVar("Spec", bound=BaseModel)
KIND: Final = "Topology"
KAI_API_VERSION: Final = f"{vocabulary.KAI_TOPOLOGY_GROUP}/v1alpha1"
MEMBERS: Final = frozenset({"apiVersion", "kind", "metadata", "spec"})


class _KaiLevel(BaseModel):
    # later versions may have more keys
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    nodeLabel: str
    alias: str | None = None


class _KaiSpec(BaseModel):
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    levels: list[_KaiLevel] = Field(min_length=1)


def read_topology(content: Object) -> Topology:
    """A Topology of our kind or of KAI's, told by its apiVersion. Raises DecodeError."""
    metadata = content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(name, str) or not name:
        raise DecodeError(KIND, ("metadata", "name"), "Field required")
    try:
        return topology(content, name, content.get("apiVersion") or API_VERSION)
    except FieldError as err:
        raise DecodeError(f"{KIND} {name}", err.path, err.problem) from None


def topology(content: Object, name: str, api_version: str) -> Topology:
    """The same where name and version are known. Raises FieldError."""
    if api_version == KAI_API_VERSION:
        return _topology(name, _validated(_KaiSpec, content).levels)
    if api_version != API_VERSION:
        raise FieldError(("apiVersion",), f"{api_version} is not read: write {API_VERSION} or {KAI_API_VERSION}")
    for key in content:
        if key not in MEMBERS:
            raise FieldError((str(key),), "no such field in a Topology")
    spec = _validated(TopologySpecModel, content)
    if spec.preset is None:
        return _topology(name, spec.levels or ())
    try:
        return Topology(name, preset(spec.preset))
    except LevelError as err:
        raise FieldError(("spec", "preset"), str(err)) from None


def one_of_each_name(*sources: Iterable[Topology]) -> tuple[tuple[Topology, ...], tuple[str, ...]]:
    """The topologies by name, of the first source that has it, and the names that stand in several sources."""
    found: dict[str, Topology] = {}
    doubles: set[str] = set()
    for source in sources:
        # within a source a name may only stand twice by mistake; the later one is as good
        named = {item.name: item for item in source}
        doubles |= found.keys() & named.keys()
        found = {**named, **found}
    return tuple(found[name] for name in sorted(found)), tuple(sorted(doubles))


def _validated(kind: type[Spec], content: Object) -> Spec:
    try:
        return kind.model_validate(content.get("spec") or {})
    except ValidationError as err:
        problem = first_problem(err)
        text = problem.problem.removeprefix("Value error, ")
        clear = "no such field in a Topology" if text.startswith("Extra inputs") else text
        raise FieldError(("spec", *problem.path), clear) from None


def _topology(name: str, levels: Iterable[Any]) -> Topology:
    aliases: dict[str, str] = {}
    keys = [level.nodeLabel for level in levels]
    for number, level in enumerate(levels):
        if level.nodeLabel in PRESETS:
            problem = f"{level.nodeLabel} is the name of a preset: write spec.preset"
            raise FieldError(("spec", "levels", number, "nodeLabel"), problem)
        if level.alias and (level.alias in aliases or level.alias in keys) and level.alias != level.nodeLabel:
            raise FieldError(("spec", "levels"), f"the alias {level.alias} stands twice, or is the label of a level")
        if level.alias:
            aliases[level.alias] = level.nodeLabel
    try:
        return Topology(name, tuple(keys), aliases)
    except LevelError as err:
        raise FieldError(("spec", "levels"), str(err)) from None
