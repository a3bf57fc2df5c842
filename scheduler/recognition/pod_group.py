"""PodGroups of KAI's kind, ours among them: their tree, their minima, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from scheduler.gang_spec import ROOT, GangSpec, Group, Nearness
from scheduler.object_facts import ObjectFacts
from scheduler.recognition.case import Case
from scheduler.recognition.fields import count, entries, said, section, text
from topology import duration, vocabulary
from topology.vocabulary import Word

_DEEPEST: Final = 16
_ROOT_NAME: Final = "the group itself"


def pod_group_spec(case: Case, group: ObjectFacts) -> GangSpec | None:
    """The gang that a PodGroup describes. None, with a refusal in the case, when it contradicts itself."""
    root = _tree(case, group)
    if root is None:
        return None
    return GangSpec(
        root,
        queue=text(group.spec, "queue") or None,
        priority_class=text(group.spec, "priorityClassName") or None,
        preemptible=_preemptible(case, group),
        created_ms=group.created_ms,
        stale_grace_ms=_grace_ms(case, group),
        stale_since_ms=_moment(case, group, vocabulary.STALE_SINCE),
        started_ms=_moment(case, group, vocabulary.LAST_START),
    )


def pod_group_leaf(case: Case, group: ObjectFacts, spec: GangSpec) -> str:
    """The leaf that the pod names. A refusal in the case when it names none that is there."""
    named = said(case.pod.labels, vocabulary.SUBGROUP)
    leaves = [leaf.name for leaf in spec.root.leaves()]
    if named in leaves:
        return named
    choice = f"one of {', '.join(leaves[:8])}" if leaves != [ROOT] else "no subgroup: it has none"
    told = f"names subgroup {named}" if named else "names no subgroup"
    case.refuse(f"pod {told}, {title(group)} wants {choice}: change label {vocabulary.SUBGROUP.key}")
    return named


def title(group: ObjectFacts) -> str:
    """An object, for people."""
    return f"{group.kind} {group.namespace}/{group.name}"


def _tree(case: Case, group: ObjectFacts) -> Group | None:
    listed = entries(group.spec, "subGroups")
    wrong = _mistake(group, listed)
    if wrong:
        case.refuse(f"{title(group)}: {wrong}")
        return None
    children: dict[str, list[Mapping[str, Any]]] = {}
    for entry in listed:
        children.setdefault(text(entry, "parent"), []).append(entry)
    _warn_of_idle(case, group, children)
    return _group(ROOT, group.spec, children)


def _group(name: str, said_of_it: Mapping[str, Any], children: Mapping[str, list[Mapping[str, Any]]]) -> Group:
    below = tuple(_group(text(child, "name"), child, children) for child in children.get(name, ()))
    minimum = count(said_of_it, "minMember")
    return Group(
        name,
        minimum=0 if below else (1 if minimum is None else minimum),
        children=below,
        min_children=count(said_of_it, "minSubGroup") if below else None,
        nearness=_nearness(section(said_of_it, "topologyConstraint")),
    )


def _nearness(constraint: Mapping[str, Any]) -> Nearness | None:
    required, preferred = text(constraint, "requiredTopologyLevel"), text(constraint, "preferredTopologyLevel")
    return Nearness(required, preferred, text(constraint, "topology")) if required or preferred else None


def _mistake(group: ObjectFacts, listed: tuple[Mapping[str, Any], ...]) -> str:
    """What makes a PodGroup unusable; "" when nothing does."""
    if not isinstance(group.spec.get("subGroups"), list | None):
        return "subGroups has to be a list"
    names = [text(entry, "name") for entry in listed]
    if not all(names):
        return "a subgroup has no name: give it one"
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        return f"two subgroups are named {twice}: rename one"
    parents = {text(entry, "name"): text(entry, "parent") for entry in listed}
    for name, parent in parents.items():
        if parent and parent not in parents:
            return f"subgroup {name} has the parent {parent}, which is none of the subgroups"
    return _circle(parents) or _mistaken_minima(group, listed)


def _circle(parents: Mapping[str, str]) -> str:
    for name in parents:
        above, steps = parents[name], 1
        while above:
            if above == name:
                return f"subgroup {name} is its own ancestor: change a parent"
            if steps > _DEEPEST:
                return f"subgroup {name} is nested deeper than {_DEEPEST}, or its parents go in a circle"
            above, steps = parents[above], steps + 1
    return ""


def _mistaken_minima(group: ObjectFacts, listed: tuple[Mapping[str, Any], ...]) -> str:
    inner = {text(entry, "parent") for entry in listed}
    for entry, name in ((group.spec, _ROOT_NAME), *((entry, text(entry, "name")) for entry in listed)):
        for key in ("minMember", "minSubGroup"):
            if entry.get(key) is not None and count(entry, key) is None:
                return f"{key} of {name} is no whole number from 0 on"
        leaf = name not in inner if name != _ROOT_NAME else not listed
        if count(entry, "minMember") is not None and count(entry, "minSubGroup") is not None:
            return f"{name} has both minMember and minSubGroup: remove one"
        if leaf and count(entry, "minSubGroup") is not None:
            return f"{name} has minSubGroup and no subgroups: write minMember"
        if leaf and count(entry, "minMember") is None and name != _ROOT_NAME:
            return f"subgroup {name} has no minMember: it holds pods and needs one"
    return ""


def _warn_of_idle(case: Case, group: ObjectFacts, children: Mapping[str, list[Mapping[str, Any]]]) -> None:
    described = {ROOT: group.spec}
    described |= {text(entry, "name"): entry for below in children.values() for entry in below}
    for name, below in children.items():
        who = name or _ROOT_NAME
        if count(described[name], "minMember") is not None:
            case.warn(
                "MIN_MEMBER_IDLE",
                f"{title(group)}: minMember of {who} has no effect: it has subgroups, which have theirs",
            )
        if (count(described[name], "minSubGroup") or 0) > len(below):
            case.warn(
                "MIN_SUBGROUP_TOO_LARGE",
                f"{title(group)}: minSubGroup of {who} is more than its {len(below)} subgroups: it can never start",
            )


def _preemptible(case: Case, group: ObjectFacts) -> bool | None:
    written = text(group.spec, "preemptibility")
    if written in ("", vocabulary.PREEMPTIBLE, vocabulary.NON_PREEMPTIBLE):
        return written == vocabulary.PREEMPTIBLE if written else None
    case.warn(
        "PREEMPTIBILITY_UNKNOWN",
        f"{title(group)}: preemptibility {written[:40]!r} has no effect: write {vocabulary.PREEMPTIBLE} or "
        f"{vocabulary.NON_PREEMPTIBLE}",
    )
    return None


def _grace_ms(case: Case, group: ObjectFacts) -> int | None:
    written = text(group.spec, "stalenessGracePeriod").strip()
    if not written:
        return None
    try:
        return -1 if written.startswith("-") else duration.parse_ms(written if written != "0" else "0s")
    except duration.DurationError:
        case.warn(
            "GRACE_UNREADABLE",
            f"{title(group)}: stalenessGracePeriod {written[:40]!r} has no effect: write {duration.FORM}",
        )
        return None


def _moment(case: Case, group: ObjectFacts, word: Word) -> int | None:
    written = said(group.annotations, word)
    if not written:
        return None
    try:
        moment = datetime.fromisoformat(written)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        case.warn("TIME_UNREADABLE", f"{title(group)}: annotation {word.key} {written[:40]!r} is no time (RFC 3339)")
        return None
