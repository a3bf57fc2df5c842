"""Findings as people and programs read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from extender_api.doctor.finding import Finding, Level, worst

_MARKS: Final = {Level.OK: ("✓", "green"), Level.WARN: ("!", "yellow"), Level.ERROR: ("✗", "bold red")}


def for_people(findings: Sequence[Finding]) -> RenderableType:
    """One line for each finding, what to do below it where something is wrong, and a last line that counts."""
    lines: list[RenderableType] = []
    for finding in findings:
        mark, style = _MARKS[finding.level]
        lines.append(
            Padding(
                Text.assemble((f"{mark} ", style), (f"{finding.title}: ", "bold"), finding.found), (0, 0), expand=False
            )
        )
        if finding.mend:
            lines.append(Padding(Text.assemble(("→ ", style), finding.mend), (0, 0, 0, 4), expand=False))
    counts = Counter(finding.level for finding in findings)
    lines.append(Text(f"{counts[Level.ERROR]} errors, {counts[Level.WARN]} warnings, {counts[Level.OK]} well"))
    return Group(*lines)


def for_programs(findings: Sequence[Finding]) -> dict[str, Any]:
    """`{"worst": level, "findings": [{"level", "title", "found", "mend"}]}`"""
    return {
        "worst": worst(findings).value,
        "findings": [
            {"level": finding.level.value, "title": finding.title, "found": finding.found, "mend": finding.mend}
            for finding in findings
        ],
    }
