"""Words for reasons that are about gangs."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.reason import Code


def sentence(code: Code, numbers: Mapping[str, int | str]) -> str | None:
    """A reason for people, or None for a code that is not about gangs."""
    gang = numbers.get("gang", "its gang")
    match code:
        case Code.GANG_NOT_FOUND:
            return f"waits for {numbers.get('missing') or gang}, which does not exist (yet)"
        case Code.GANG_INVALID:
            return f"{gang}: {numbers.get('problem')}" if "gang" in numbers else str(numbers.get("problem"))
        case Code.GANG_INCOMPLETE:
            where = f"subgroup {numbers['subgroup']} of {gang}" if "subgroup" in numbers else str(gang)
            return (
                f"{where} waits for more pods: {numbers['present']} of the {numbers['needed']} that it needs are there"
            )
        case Code.GANG_DOES_NOT_FIT:
            return _does_not_fit(numbers)
        case Code.WAITS_FOR_GANG:
            return "goes when its gang goes"
        case _:
            return None


def _does_not_fit(numbers: Mapping[str, int | str]) -> str:
    gang, fitting = numbers["gang"], numbers["fitting"]
    wanted = "1 pod more" if numbers["pods"] == 1 else f"{numbers['pods']} pods at once"
    if "level" in numbers:
        return f"{gang} needs room for {wanted} near one another: no domain of {numbers['level']} has it"
    if fitting == numbers["pods"]:
        return f"{gang} needs room for {wanted} near one another, and there is no such place"
    return f"{gang} needs room for {wanted}, there is room for {fitting}"
