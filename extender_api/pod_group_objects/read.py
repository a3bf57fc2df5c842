"""PodGroups of our kind from documents that no API server has checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from extender_api.cluster.fields import DecodeError, first_problem
from extender_api.pod_group_objects.model import PodGroupSpecModel
from scheduler.object_facts import ObjectFacts

MEMBERS: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_UNKNOWN: Final = "no such field in a PodGroup"


def check_pod_group(content: Mapping[str, Any], facts: ObjectFacts) -> None:
    """Raises DecodeError for fields that there are not, and for values that cannot be.

    What is wrong with the tree as a whole is for those who make a gang of it to say.
    """
    where = f"{facts.kind} {facts.namespace}/{facts.name}"
    for key in content:
        if key not in MEMBERS:
            raise DecodeError(where, (str(key),), _UNKNOWN)
    try:
        PodGroupSpecModel.model_validate(content.get("spec") or {})
    except ValidationError as err:
        problem = first_problem(err)
        text = _UNKNOWN if problem.problem.startswith("Extra inputs") else problem.problem
        raise DecodeError(where, ("spec", *problem.path), text) from None
