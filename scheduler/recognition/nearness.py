"""Words about topology, as KAI, Kueue and we write them, → who has to be near whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from scheduler.gang_spec import Group, Nearness, Slice
from scheduler.recognition.case import Case
from scheduler.recognition.fields import number, parsed, said, spelled, text
from topology import vocabulary

Words = Mapping[str, str]
_MOST_LAYERS: Final = 3


def nearness_said(case: Case, words: Words) -> Nearness | None:
    """What annotations say of a whole group, in our and KAI's words, else in Kueue's; None when nothing."""
    ours = Nearness(
        required=said(words, vocabulary.REQUIRED_PLACEMENT),
        preferred=said(words, vocabulary.PREFERRED_PLACEMENT),
        topology=said(words, vocabulary.TOPOLOGY),
    )
    kueues = _kueue_nearness(case, words)
    if not ours.required and not ours.preferred:
        if ours.topology and kueues is None and not _segments_said(words):
            case.warn(
                "TOPOLOGY_WITHOUT_LEVEL",
                f"annotation {spelled(words, vocabulary.TOPOLOGY)} alone has no effect: name a level with "
                f"{vocabulary.REQUIRED_PLACEMENT.key} or {vocabulary.PREFERRED_PLACEMENT.key}",
            )
        return kueues
    if kueues is not None:
        case.warn(
            "TOPOLOGY_TWICE",
            f"annotation {spelled(words, vocabulary.KUEUE_REQUIRED)} is passed over: {vocabulary.TOPOLOGY.key} and its "
            "like come first; remove one of them",
        )
    return ours


def root_nearness(case: Case) -> Nearness | None:
    """What the highest owner that says anything asks for its whole gang."""
    for owner in reversed(case.lineage.owners):
        found = nearness_said(case, owner.annotations)
        if found is not None:
            return found
    return None


def flat(case: Case, minimum: int, name: str = "") -> Group:
    """A leaf for the whole gang, with what the owners say of topology, else the pod."""
    leaf = Group(name, minimum, nearness=root_nearness(case) or nearness_said(case, case.pod.annotations))
    return replace(leaf, slices=slices_said(case, case.pod.annotations))


def slices_said(case: Case, words: Words) -> tuple[Slice, ...]:
    """Kueue's slices, coarse to fine. What cannot be read is a refusal: it was meant as a condition."""
    layers = said(words, vocabulary.KUEUE_SLICE_LAYERS)
    level, size = said(words, vocabulary.KUEUE_SLICE_REQUIRED), said(words, vocabulary.KUEUE_SLICE_SIZE)
    if layers:
        if level or size:
            case.warn(
                "SLICES_TWICE",
                f"annotations {vocabulary.KUEUE_SLICE_REQUIRED.key} and {vocabulary.KUEUE_SLICE_SIZE.key} are passed "
                f"over beside {vocabulary.KUEUE_SLICE_LAYERS.key}: remove them",
            )
        return _layers(case, layers)
    if not level and not size:
        return ()
    pods = number(size)
    if not level or not pods:
        case.refuse(
            f"annotations {vocabulary.KUEUE_SLICE_REQUIRED.key} and {vocabulary.KUEUE_SLICE_SIZE.key} belong together: "
            f"a level and a number of pods from 1 on, not {level!r} and {size[:40]!r}"
        )
        return ()
    return (Slice(pods, level),)


def podsets(
    case: Case, parts: Sequence[tuple[Group, Words]], *, joined: bool = True
) -> tuple[tuple[Group, ...], Nearness | None]:
    """Groups with what their pod templates say of them, and what all of them together ask for.

    Those of one Kueue podset group are `joined` in an inner group, or are the whole gang; what the first of them says
    counts for all. Not joined where the number of groups has a meaning: reported then.
    """
    teams: dict[str, list[tuple[Group, Words]]] = {}
    for place, (group, words) in enumerate(parts):
        teams.setdefault(said(words, vocabulary.KUEUE_PODSET_GROUP) or f" {place}", []).append((group, words))
    shared = {name for name, team in teams.items() if len(team) > 1}
    if len(teams) == 1 and shared:
        return tuple(group for group, _ in parts), nearness_said(case, parts[0][1])
    if shared and not joined:
        case.warn(
            "PODSET_GROUP_SPLIT",
            f"annotation {vocabulary.KUEUE_PODSET_GROUP.key} has no effect here: these groups "
            "start one after the other",
        )
        shared = set()
    found: list[Group] = []
    for name, team in teams.items():
        if name in shared:
            near = nearness_said(case, team[0][1])
            found.append(Group(f"podsets {name}", children=tuple(group for group, _ in team), nearness=near))
        else:
            found += [_placed(case, group, words) for group, words in team]
    return tuple(found), None


def _placed(case: Case, group: Group, words: Words) -> Group:
    near = nearness_said(case, words)
    if group.is_leaf and not group.slices:
        group = replace(group, slices=slices_said(case, words))
    return replace(group, nearness=near) if near is not None else group


def exclusive(inner: Nearness | None, key: str) -> Nearness | None:
    """A group that wants a domain of the level `key` for itself; "" wants nothing."""
    if not key:
        return inner
    return replace(inner or Nearness(), required=(inner.required if inner else "") or key, exclusive=key)


def _segments_said(words: Words) -> bool:
    return bool(said(words, vocabulary.SEGMENT_REQUIRED) or said(words, vocabulary.SEGMENT_PREFERRED))


def _kueue_nearness(case: Case, words: Words) -> Nearness | None:
    required, preferred = said(words, vocabulary.KUEUE_REQUIRED), said(words, vocabulary.KUEUE_PREFERRED)
    if required and preferred:
        case.warn(
            "TOPOLOGY_TWICE",
            f"annotation {vocabulary.KUEUE_PREFERRED.key} is passed over beside {vocabulary.KUEUE_REQUIRED.key}: "
            "remove one of them",
        )
        preferred = ""
    free = said(words, vocabulary.KUEUE_UNCONSTRAINED)
    if free not in ("", "true", "false"):
        case.warn("UNCONSTRAINED_UNKNOWN", f"annotation {vocabulary.KUEUE_UNCONSTRAINED.key}: write true or false")
    return Nearness(required, preferred) if required or preferred else None


def _layers(case: Case, written: str) -> tuple[Slice, ...]:
    """Kueue's documents disagree about the two keys of a layer: both are taken."""
    key = vocabulary.KUEUE_SLICE_LAYERS.key
    listed = parsed(written)
    if not isinstance(listed, list) or not 1 <= len(listed) <= _MOST_LAYERS:
        case.refuse(f"annotation {key}: write a JSON list of 1 to {_MOST_LAYERS} layers")
        return ()
    found = []
    for layer in listed:
        level = text(layer, "topology") or text(layer, "topologyLevel")
        size = _size(layer)
        if not level or size is None:
            case.refuse(f'annotation {key}: a layer is written {{"topology": LEVEL, "size": NUMBER}}')
            return ()
        found.append(Slice(size, level))
    if any(outer.size % inner.size for outer, inner in pairwise(found)):
        case.refuse(f"annotation {key}: the size of each layer has to divide that of the layer before it")
        return ()
    return tuple(found)


def _size(layer: object) -> int | None:
    if not isinstance(layer, Mapping):
        return None
    size = layer.get("size", layer.get("sliceSize"))
    if isinstance(size, str):
        size = number(size)
    return size if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 1 << 31 else None
