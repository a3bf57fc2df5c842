"""What the specs of all our kinds share: group and version, strictness, names, durations, and rules in CEL."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from topology import duration, vocabulary

GROUP: Final = vocabulary.API_GROUP
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
LONGEST_NAME: Final = 63
"""Of what workloads name in a label."""
Json = dict[str, Any]


class Part(BaseModel):
    """Anything in a spec: unknown keys are mistakes, most often misspelt ones."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


def rules(*pairs: tuple[str, str]) -> Json:
    """Rules in CEL with their messages, as a schema has them."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}


def _duration(value: object) -> object:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"write {duration.FORM}")
    duration.parse_ms(value)
    return value


Duration = Annotated[
    str, BeforeValidator(_duration), Field(json_schema_extra={"pattern": duration.PATTERN, "maxLength": 32})
]
Name = Annotated[str, Field(min_length=1, max_length=253)]
