"""Checks of the cluster and of what runs in it: versions, clocks, replicas, the Lease, rights, nodes, annotations."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from extender_api.cluster.decode import decode_lease
from extender_api.cluster.fields import DecodeError
from extender_api.cluster.lease import holder_host
from extender_api.doctor.facts import Facts, Installation, Rights
from extender_api.doctor.finding import Finding, error, ok, warn
from scheduler.allocation import VERSION as ANNOTATION_VERSION
from topology import vocabulary
from topology.inventory import ShareSupport

OLDEST: Final = (1, 34)
POLICIES_ON: Final = (1, 36)
"""From here on MutatingAdmissionPolicy is on without being asked for."""
NEWEST: Final = (1, 38)
SKEW_WARN_MS: Final = 2_000
SKEW_ERROR_MS: Final = 10_000
"""Two thirds of the time a Lease is held."""
SHOWN: Final = 5
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")


def check(facts: Facts, tangram_version: str) -> Iterator[Finding]:
    """All findings of this module; `tangram_version` is that of the doctor."""
    yield from _api_version(facts)
    yield from _clocks(facts)
    for installation in facts.installations:
        yield from _replicas(installation)
        yield from _images(installation, facts, tangram_version)
        yield from _lease(installation, facts)
        yield from _rights(installation.rights)
    if facts.own_rights is not None:
        yield from _rights(facts.own_rights)
    yield from _nodes(facts)
    yield from _allocations(facts)
    for trouble in facts.trouble:
        yield warn("not looked at", trouble, "run the doctor as an administrator")


def version_of(text: str) -> tuple[int, int] | None:
    """(major, minor) at the start of a version, or None."""
    found = _VERSION.match(text)
    return (int(found[1]), int(found[2])) if found else None


# -- versions ------------------------------------------------------------------------------------------------------
def _api_version(facts: Facts) -> Iterator[Finding]:
    title = "Kubernetes version"
    text = str(facts.version.body.get("gitVersion", ""))
    version = version_of(text)
    if not facts.version.exists or version is None:
        yield warn(title, f"unknown: {facts.version.trouble}", "see whether the API server can be reached")
    elif version < OLDEST:
        yield error(
            title,
            f"{text}; Tangram was never run below {_dotted(OLDEST)}",
            f"upgrade to {_dotted(POLICIES_ON)} or newer",
        )
    elif version < POLICIES_ON:
        yield warn(
            title,
            f"{text}: MutatingAdmissionPolicy is a beta that is off: nothing adds the gate and the devices of shares",
            f"upgrade to {_dotted(POLICIES_ON)}; until then whole devices work, waiting pods are retried by "
            "kube-scheduler, and shares must not be used",
        )
    elif version > NEWEST:
        yield warn(title, f"{text} is newer than what this Tangram knows ({_dotted(NEWEST)})", "upgrade Tangram")
    else:
        yield ok(title, text)


def _images(installation: Installation, facts: Facts, tangram_version: str) -> Iterator[Finding]:
    title = f"versions of {installation.key}"
    server = version_of(str(facts.version.body.get("gitVersion", "")))
    tag = _tag(installation.images.get("kube-scheduler", ""))
    scheduler = version_of(tag)
    behind = None if server is None or scheduler is None else server[1] - scheduler[1]
    sound = True
    if behind is not None and behind < 0:
        sound = False
        yield error(
            title,
            f"kube-scheduler {tag} is newer than the API server ({_dotted(server)})",
            f"use the image kube-scheduler:v{_dotted(server)}.x",
        )
    elif behind is not None and behind > 1:
        sound = False
        yield warn(
            title,
            f"kube-scheduler {tag} is {behind} minor versions behind the API server ({_dotted(server)})",
            f"use the image kube-scheduler:v{_dotted(server)}.x",
        )
    running = _tag(installation.images.get("tangram", ""))
    if version_of(running) is not None and running != tangram_version:
        sound = False
        yield warn(
            title,
            f"Tangram {running} runs there, this doctor is of {tangram_version} and compares with its own manifests",
            f"use the doctor of {running}, or upgrade the installation",
        )
    if sound:
        yield ok(title, f"kube-scheduler {tag or 'without a tag'}, Tangram {running or 'without a tag'}")


def _tag(image: str) -> str:
    name = image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2]


def _dotted(version: tuple[int, int] | None) -> str:
    return "?" if version is None else f"{version[0]}.{version[1]}"


# -- time ----------------------------------------------------------------------------------------------------------
def _clocks(facts: Facts) -> Iterator[Finding]:
    title = "clocks"
    if facts.server_ms is None:
        yield warn(title, "the API server does not tell its time", "compare `date` on the machines yourself")
        return
    skew_ms = facts.now_ms - facts.server_ms
    if abs(skew_ms) < SKEW_WARN_MS:
        yield ok(title, "this machine and the API server agree within 2 s")
        return
    level = error if abs(skew_ms) >= SKEW_ERROR_MS else warn
    way = "ahead of" if skew_ms > 0 else "behind"
    yield level(
        title,
        f"this machine is {abs(skew_ms) / 1000:.0f} s {way} the API server",
        "let both follow NTP: deadlines and the Lease compare times of several machines",
    )


def _lease(installation: Installation, facts: Facts) -> Iterator[Finding]:
    title = f"leader of {installation.key}"
    if installation.lease.missing:
        yield error(
            title,
            "nobody has taken the Lease yet",
            f"see why kube-scheduler does not run: kubectl -n {installation.namespace} logs "
            f"deployment/{installation.name} -c kube-scheduler",
        )
        return
    if not installation.lease.exists:
        yield warn(
            title, f"the Lease could not be read: {installation.lease.trouble}", "run the doctor as an administrator"
        )
        return
    try:
        lease = decode_lease(installation.lease.body)
    except DecodeError as err:
        yield error(title, f"the Lease cannot be read: {err}", "delete it; kube-scheduler makes a new one")
        return
    now_ms = facts.now_ms if facts.server_ms is None else facts.server_ms
    holder, renewed_ms = lease.holder, lease.renewed_ms
    if not holder or now_ms - renewed_ms > lease.duration_ms:
        yield error(
            title,
            f"nobody holds the Lease (last: {holder or 'nobody'}), so no replica acts",
            f"see why kube-scheduler does not run: kubectl -n {installation.namespace} get pods",
        )
        return
    host = holder_host(holder)
    if installation.pods and host not in installation.pods:
        yield error(
            title,
            f"the Lease is held by {holder}, which is none of the replicas ({', '.join(installation.pods)})",
            "stop the other kube-scheduler that uses this Lease, or give it a Lease of its own",
        )
    elif renewed_ms - now_ms > SKEW_WARN_MS:
        yield warn(
            title,
            f"{host} renewed the Lease {(renewed_ms - now_ms) / 1000:.0f} s in the future of the API server",
            "let its node follow NTP",
        )
    else:
        yield ok(title, host)


# -- what runs -----------------------------------------------------------------------------------------------------
def _replicas(installation: Installation) -> Iterator[Finding]:
    title = f"replicas of {installation.key}"
    look = f"kubectl -n {installation.namespace} describe deployment/{installation.name}"
    if installation.ready == 0:
        yield error(title, f"none of {installation.replicas} is ready: nothing is scheduled", look)
    elif installation.ready < installation.replicas:
        yield warn(title, f"{installation.ready} of {installation.replicas} ready", look)
    else:
        yield ok(title, f"{installation.ready} ready")


def _rights(rights: Rights) -> Iterator[Finding]:
    title = f"rights of {rights.account}"
    if rights.denied:
        listed = "; ".join(map(str, rights.denied[:SHOWN]))
        more = f" and {len(rights.denied) - SHOWN} more" if len(rights.denied) > SHOWN else ""
        yield error(title, f"not allowed: {listed}{more}", "apply the shipped roles: kubectl apply -k manifests/base")
    elif rights.asked:
        yield ok(title, f"all {rights.asked} that are needed")


def _nodes(facts: Facts) -> Iterator[Finding]:
    with_devices = [node for node in facts.nodes if node.device_resource is not None]
    takers = [node.name for node in with_devices if node.shares is ShareSupport.YES]
    mend = (
        f"where something on a node honours the assignment, kubectl label node NODE {vocabulary.NODE_SHARES}=true, "
        "or set devices.shares_by_default"
    )
    if not with_devices:
        yield warn(
            "devices",
            f"none of {len(facts.nodes)} nodes has a device resource in its allocatable",
            "install the vendor's device plugin, or name your resource in the setting devices.resources",
        )
    else:
        yield ok("devices", f"{len(with_devices)} of {len(facts.nodes)} nodes have devices")
        if takers:
            yield ok("shares", f"{len(takers)} nodes take shares of devices")
        else:
            yield warn("shares", "no node takes shares of devices: pods that ask for one wait", mend)
    grouped: defaultdict[str, list[str]] = defaultdict(list)
    for node in facts.nodes:
        for text in node.warnings:
            grouped[text].append(node.name)
    for text, names in grouped.items():
        yield warn(f"node {_some(names)}", text, "correct the node's labels, annotations or device plugin")
    for text in facts.unreadable_nodes:
        yield error("node", f"cannot be read: {text}", "correct that field of the node")


def _allocations(facts: Facts) -> Iterator[Finding]:
    title = "allocation annotations"
    if not facts.strange_allocations:
        yield ok(title, f"{facts.allocations} bound pods, all readable (version {ANNOTATION_VERSION})")
        return
    names = [name for name, _ in facts.strange_allocations]
    yield error(
        title,
        f"{len(names)} of {facts.allocations} cannot be read, first: {names[0]}: {facts.strange_allocations[0][1]}",
        f"use the Tangram that wrote them, or delete the pods ({_some(names)}); until then their devices are guessed",
    )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
