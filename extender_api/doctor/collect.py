"""Reads everything the checks look at. Only reads; what cannot be read becomes a fact too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final

from extender_api.cluster import decode, paths
from extender_api.cluster.client import ClusterClient
from extender_api.doctor import policies, rights, shipped
from extender_api.doctor.configuration import Configuration, ConfigurationError, parse
from extender_api.doctor.facts import HTTP_NOT_FOUND, Facts, Installation, Rights, Seen
from extender_api.doctor.listing import ListError, every
from extender_api.queue_objects.crd import QUEUE
from queues.spec import QueueSpec
from scheduler.allocation import AllocationError, from_annotation
from topology import vocabulary
from topology.inventory import InventorySettings, NodeInventory, describe

LABEL: Final = "app.kubernetes.io/part-of=tangram"


def wall_clock_ms() -> int:
    """Epoch milliseconds."""
    return time.time_ns() // 1_000_000


async def collect(
    client: ClusterClient, inventory: InventorySettings, clock: Callable[[], int] = wall_clock_ms
) -> Facts:
    """The facts of the cluster. Raises Unreachable when there is no answer at all."""
    version = await _see(client, "/version")
    trouble: list[str] = []
    now_ms, server_ms = await _times(client, clock)
    wanted = policies.names()
    seen = await asyncio.gather(*(_see(client, f"{shipped.COLLECTIONS[kind]}/{name}") for kind, name in wanted))
    installations = await _installations(client, trouble)
    nodes, unreadable = await _nodes(client, inventory, trouble)
    allocations, strange = await _allocations(client, trouble)
    definition = await _see(client, f"{shipped.COLLECTIONS['CustomResourceDefinition']}/{QUEUE.name}")
    queues, unreadable_queues = await _queues(client, trouble)
    return Facts(
        now_ms=now_ms,
        server_ms=server_ms,
        version=version,
        policies=dict(zip(wanted, seen, strict=True)),
        installations=installations,
        own_rights=None if installations else await _own_rights(client, trouble),
        nodes=nodes,
        unreadable_nodes=unreadable,
        allocations=allocations,
        strange_allocations=strange,
        queue_definition=definition,
        queues=queues,
        unreadable_queues=unreadable_queues,
        namespaces=await _namespaces(client, trouble),
        trouble=tuple(trouble),
    )


async def _see(client: ClusterClient, path: str) -> Seen:
    answer = await client.get(path)
    return Seen(answer.status, answer.json())


async def _times(client: ClusterClient, clock: Callable[[], int]) -> tuple[int, int | None]:
    """Our time and the API server's at the same moment: it stamps a SelfSubjectReview, which anybody may create."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    before_ms = clock()
    answer = await client.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    now_ms = (before_ms + clock()) // 2
    stamp = answer.json().get("metadata", {}).get("creationTimestamp")
    if not isinstance(stamp, str):
        return now_ms, None
    # the stamp has no fraction of a second: half of one is the best guess
    return now_ms, int(datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp() * 1000) + 500


# -- installations ---------------------------------------------------------------------------------------------------
async def _installations(client: ClusterClient, trouble: list[str]) -> tuple[Installation, ...]:
    answer = await client.get("/apis/apps/v1/deployments", {"labelSelector": LABEL})
    if not answer.ok:
        trouble.append(f"deployments: {answer.message}")
        return ()
    return tuple([await _installation(client, item, trouble) for item in answer.json().get("items") or ()])


async def _installation(client: ClusterClient, deployment: Mapping[str, Any], trouble: list[str]) -> Installation:
    metadata, spec = deployment["metadata"], deployment["spec"]
    namespace, pod = metadata["namespace"], spec["template"]["spec"]
    texts = await _configuration_texts(client, namespace, pod)
    configuration = _parsed(texts.get("scheduler.yaml"))
    lease = ("", "") if configuration is None else (configuration.lease_namespace, configuration.lease_name)
    account = pod.get("serviceAccountName", "default")
    return Installation(
        namespace=namespace,
        name=metadata["name"],
        replicas=spec.get("replicas", 1),
        ready=deployment.get("status", {}).get("readyReplicas", 0),
        images={container["name"]: container["image"] for container in pod["containers"]},
        files=texts,
        pods=await _pod_names(client, namespace, spec["selector"].get("matchLabels") or {}),
        lease=Seen() if configuration is None else await _see(client, f"{paths.leases(lease[0])}/{lease[1]}"),
        rights=Rights(f"{namespace}/{account}")
        if configuration is None
        else await _rights(client, configuration, namespace, account, trouble),
    )


async def _configuration_texts(client: ClusterClient, namespace: str, pod: Mapping[str, Any]) -> Mapping[str, str]:
    """The files in the ConfigMaps that the pod mounts."""
    texts: dict[str, str] = {}
    for volume in pod.get("volumes") or ():
        name = (volume.get("configMap") or {}).get("name")
        if name:
            seen = await _see(client, f"/api/v1/namespaces/{namespace}/configmaps/{name}")
            texts.update(seen.body.get("data") or {})
    return texts


def _parsed(text: str | None) -> Configuration | None:
    try:
        return None if text is None else parse(text)
    except ConfigurationError:
        return None


async def _pod_names(client: ClusterClient, namespace: str, labels: Mapping[str, str]) -> tuple[str, ...]:
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    answer = await client.get(f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": selector})
    return tuple(sorted(item["metadata"]["name"] for item in answer.json().get("items") or ()))


async def _rights(
    client: ClusterClient, configuration: Configuration, namespace: str, account: str, trouble: list[str]
) -> Rights:
    mode = "advise" if configuration.advises else "base"
    lease = (configuration.lease_namespace, configuration.lease_name)
    needed = (*rights.of_tangram(mode, namespace, lease), *rights.of_kube_scheduler(lease))
    return await _ask(rights.ask(client, needed, (namespace, account)), f"{namespace}/{account}", trouble)


async def _own_rights(client: ClusterClient, trouble: list[str]) -> Rights:
    needed = rights.of_tangram("base", "kube-system", ("kube-system", "tangram"))
    cluster_wide = [right for right in needed if not right.namespace]
    return await _ask(rights.ask(client, cluster_wide, None), "these credentials", trouble)


async def _ask(asking: Awaitable[Rights], account: str, trouble: list[str]) -> Rights:
    try:
        return await asking
    except PermissionError as err:
        trouble.append(str(err))
        return Rights(account)


# -- nodes, pods and queues -------------------------------------------------------------------------------------------
async def _nodes(
    client: ClusterClient, settings: InventorySettings, trouble: list[str]
) -> tuple[tuple[NodeInventory, ...], tuple[str, ...]]:
    nodes: list[NodeInventory] = []
    unreadable: list[str] = []
    try:
        async for found in every(client, paths.NODES, decode.NODES):
            if found.facts is None:
                unreadable.append(str(found.error))
            else:
                nodes.append(describe(found.facts, settings))
    except ListError as err:
        trouble.append(str(err))
    return tuple(nodes), tuple(unreadable)


async def _queues(client: ClusterClient, trouble: list[str]) -> tuple[tuple[QueueSpec, ...], tuple[str, ...]]:
    """Queue objects of both kinds, neither of which has to be defined."""
    queues: list[QueueSpec] = []
    unreadable: list[str] = []
    for path, codec in ((paths.QUEUES, decode.QUEUES), (paths.KAI_QUEUES, decode.KAI_QUEUES)):
        try:
            async for found in every(client, path, codec):
                if found.facts is None:
                    unreadable.append(str(found.error))
                else:
                    queues.append(found.facts.spec)
        except ListError as err:
            if err.status != HTTP_NOT_FOUND:
                trouble.append(str(err))
    return tuple(queues), tuple(unreadable)


async def _namespaces(client: ClusterClient, trouble: list[str]) -> Mapping[str, Mapping[str, str]]:
    labels: dict[str, Mapping[str, str]] = {}
    try:
        async for found in every(client, paths.NAMESPACES, decode.NAMESPACES):
            if found.facts is not None:
                labels[found.facts.name] = found.facts.labels
    except ListError as err:
        trouble.append(str(err))
    return labels


async def _allocations(client: ClusterClient, trouble: list[str]) -> tuple[int, tuple[tuple[str, str], ...]]:
    """How many bound pods carry our annotation, and those where it cannot be read."""
    count = 0
    strange: list[tuple[str, str]] = []
    try:
        async for found in every(client, paths.PODS, decode.PODS):
            pod = found.facts
            if pod is None or pod.node_name is None or vocabulary.ALLOCATION not in pod.annotations:
                continue
            count += 1
            try:
                from_annotation(pod.annotations[vocabulary.ALLOCATION])
            except AllocationError as err:
                strange.append((pod.key, str(err)))
    except ListError as err:
        trouble.append(str(err))
    return count, tuple(strange)
