"""Segments: a group of numbered pods cut into leaves of one size, each near together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.gang_spec import Group, Nearness
from scheduler.recognition.case import Case
from scheduler.recognition.fields import number, said, spelled
from topology import vocabulary

MOST_LEAVES: Final = 10_000
"""More leaves than that in one gang are a mistake."""


def segment_size(case: Case, words: Mapping[str, str], pods: int) -> int | None:
    """What a pod template asks for; None when nothing, or nothing that can be done, which is then reported."""
    written = said(words, vocabulary.SEGMENT_SIZE)
    if not written:
        return None
    size = number(written)
    key = spelled(words, vocabulary.SEGMENT_SIZE)
    if size is None or not 1 < size <= pods:
        case.warn("SEGMENT_SIZE_WRONG", f"annotation {key}: {written[:40]!r} has no effect: write 2 to {pods}")
        return None
    if segment_nearness(words) is None:
        levels = f"{vocabulary.SEGMENT_REQUIRED.key} or {vocabulary.SEGMENT_PREFERRED.key}"
        case.warn("SEGMENT_WITHOUT_LEVEL", f"annotation {key} alone has no effect: name a level with {levels}")
        return None
    return size


def segment_nearness(words: Mapping[str, str]) -> Nearness | None:
    """Where the pods of each segment have to be and should be."""
    near = Nearness(
        required=said(words, vocabulary.SEGMENT_REQUIRED),
        preferred=said(words, vocabulary.SEGMENT_PREFERRED),
        topology=said(words, vocabulary.TOPOLOGY),
    )
    return near if near.required or near.preferred else None


def segmented(case: Case, group: Group, pods: int, size: int, near: Nearness | None) -> Group:
    """`group` as an inner group of ⌈pods/size⌉ leaves `NAME-0`, `NAME-1`, …; the first ones carry its minimum."""
    if -(-pods // size) > MOST_LEAVES:
        case.refuse(f"{pods} pods in segments of {size} are more than {MOST_LEAVES} segments: make them larger")
        return group
    leaves = tuple(
        Group(f"{group.name}-{start // size}", max(0, min(size, pods - start, group.minimum - start)), nearness=near)
        for start in range(0, pods, size)
    )
    return Group(group.name, children=leaves, nearness=group.nearness)
