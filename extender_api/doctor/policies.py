"""Checks of the admission policies: there, bound, and as they are shipped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from extender_api.doctor import shipped
from extender_api.doctor.facts import Facts, Seen
from extender_api.doctor.finding import Finding, error, ok, warn

TITLES: Final = {shipped.GATE: "gate policy", shipped.DEVICES: "devices policy"}
PROTECTION_TITLE: Final = "protection policy"
APPLY: Final = "apply the shipped manifests: kubectl apply -k manifests/base"
_EXEMPT: Final = re.compile(r"!\(request\.userInfo\.username in \[(.*)\]\)", re.DOTALL)
SHOWN: Final = 3
_KINDS: Final = ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")


def check(facts: Facts) -> Iterator[Finding]:
    """Findings about the policies and their bindings."""
    yield from _mutating(facts)
    yield from _protection(facts)


def names() -> tuple[tuple[str, str], ...]:
    """(kind, name) of every object looked at here."""
    return (
        *((kind, name) for name in shipped.MUTATING for kind in _KINDS),
        ("ValidatingAdmissionPolicy", shipped.PROTECTION),
        ("ValidatingAdmissionPolicyBinding", shipped.PROTECTION),
    )


def _mutating(facts: Facts) -> Iterator[Finding]:
    """The policies are to be of one form, the base's or the provider overlay's: that of the first that is sound."""
    possible = [0, 1]
    for name, title in TITLES.items():
        policy, binding = (facts.policies[kind, name] for kind in _KINDS)
        absent = _absent(title, policy, binding)
        if absent is not None:
            yield absent
            continue
        forms = shipped.mutating_policy(name)
        differing = {index: differences(forms[index]["spec"], policy.body["spec"]) for index in possible}
        alike = [index for index in possible if not differing[index]]
        if alike:
            possible = alike
            yield ok(title, "installed as shipped")
        else:
            yield _changed(title, differing[possible[0]])


def _protection(facts: Facts) -> Iterator[Finding]:
    policy, binding = (facts.policies[name] for name in names()[-2:])
    absent = _absent(PROTECTION_TITLE, policy, binding)
    if absent is not None:
        yield absent
        return
    if "Deny" not in binding.body["spec"].get("validationActions", ()):
        yield error(PROTECTION_TITLE, "its binding does not deny, so the annotations can be forged", APPLY)
        return
    wanted, exempt = _without_exemption(shipped.protection_policy()["spec"])
    found, exempt = _without_exemption(policy.body["spec"])
    differing = differences(wanted, found)
    if exempt is None:
        yield error(
            PROTECTION_TITLE,
            f"its condition {shipped.EXEMPTION} is not a list of accounts any more",
            f"write it as !(request.userInfo.username in ['ACCOUNT']), or {APPLY}",
        )
    elif differing:
        yield _changed(PROTECTION_TITLE, differing)
    else:
        yield ok(PROTECTION_TITLE, f"installed; exempt accounts: {exempt or 'none'}")


def _absent(title: str, policy: Seen, binding: Seen) -> Finding | None:
    """A finding when the policy or its binding is not there or cannot be read."""
    for what, seen in (("policy", policy), ("binding", binding)):
        if seen.missing:
            return error(title, f"the {what} is not installed", APPLY)
        if not seen.exists:
            return warn(title, f"the {what} could not be read: {seen.trouble}", "run the doctor as an administrator")
    return None


def _changed(title: str, differing: list[str]) -> Finding:
    more = f" and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
    return error(title, f"differs from the shipped one in {', '.join(differing[:SHOWN])}{more}", APPLY)


def _without_exemption(spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], str | None]:
    """The policy without the exemption's expression, and the accounts it lists; None where it is no such list."""
    conditions, accounts = [], None
    for condition in spec.get("matchConditions", ()):
        if condition["name"] == shipped.EXEMPTION:
            listed = _EXEMPT.fullmatch(condition["expression"].strip())
            accounts = listed[1].strip() if listed else None
            conditions.append({"name": condition["name"]})
        else:
            conditions.append(condition)
    return {**spec, "matchConditions": conditions}, accounts


def differences(wanted: Any, found: Any, path: str = "spec") -> list[str]:
    """Where `found` is not what `wanted` says. Keys that only `found` has are the API server's defaults.

    Texts are compared without regard to how they are broken into lines.
    """
    if isinstance(wanted, Mapping):
        if not isinstance(found, Mapping):
            return [path]
        return [where for key, value in wanted.items() for where in differences(value, found.get(key), f"{path}.{key}")]
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return [path]
        return [
            where
            for index, (ours, theirs) in enumerate(zip(wanted, found, strict=True))
            for where in differences(ours, theirs, f"{path}[{index}]")
        ]
    if isinstance(wanted, str) and isinstance(found, str):
        return [] if wanted.split() == found.split() else [path]
    return [] if wanted == found else [path]
