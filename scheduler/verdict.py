"""Answers to kube-scheduler's questions, before they become wire types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.reason import Code


@dataclass(frozen=True, slots=True)
class FilterVerdict:
    """`nodes` pass. When none does, `refused` says why for each offered node. `error` set means trouble of ours."""

    nodes: Sequence[str] = ()
    refused: Mapping[str, Code] = field(default_factory=dict)
    error: str = ""
