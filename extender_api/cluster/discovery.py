"""Which kinds the API server has, and in which versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from extender_api.cluster.answer import Answer, Refused
from extender_api.cluster.client import ClusterClient
from extender_api.cluster.object_kinds import ObjectKind

GROUPS: Final = "/apis"
_NEEDED: Final = frozenset({"list", "watch"})
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404

Served = Mapping[ObjectKind, tuple[str, ...]]
"""The understood versions in which a kind can be followed, newest first; kinds without any are absent."""


async def discover(client: ClusterClient, kinds: Iterable[ObjectKind]) -> Served:
    """Asks for the groups there are, then once for each version of a group that has kinds of ours.

    Where asking is not allowed every kind is taken to be there in its newest version. Raises Refused, Unreachable.
    """
    wanted = list(kinds)
    answer = await client.get(GROUPS)
    if answer.status == _FORBIDDEN:
        return {kind: kind.versions[:1] for kind in wanted}
    there = {(group, version) for group, version in _versions(_checked(answer))}
    plurals: dict[tuple[str, str], frozenset[str]] = {}
    for group, version in sorted({(kind.group, version) for kind in wanted for version in kind.versions} & there):
        listed = await client.get(f"{GROUPS}/{group}/{version}")
        if listed.status != _NOT_FOUND:
            plurals[group, version] = _followed(_checked(listed))
    served = {
        kind: tuple(version for version in kind.versions if kind.plural in plurals.get((kind.group, version), ()))
        for kind in wanted
    }
    return {kind: versions for kind, versions in served.items() if versions}


def _checked(answer: Answer) -> Mapping[str, Any]:
    if not answer.ok:
        raise Refused(answer)
    return answer.json()


def _versions(groups: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for group in groups.get("groups") or ():
        for version in group.get("versions") or ():
            yield group.get("name", ""), version.get("version", "")


def _followed(resources: Mapping[str, Any]) -> frozenset[str]:
    listed = resources.get("resources") or ()
    return frozenset(entry.get("name", "") for entry in listed if set(entry.get("verbs") or ()) >= _NEEDED)
