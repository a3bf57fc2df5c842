"""Takes Tangram out of a cluster in an order in which no pod is left behind.

A gate stays on its pod when the one who removes gates is gone, and `spec.schedulerName` cannot be changed. So the
policies that change new pods go first, then the gates of waiting pods; pods that run are never touched. Every step
may be repeated, and rights are checked before the first one.

Objects of our kinds are what people wrote, and their definitions take them along: each stays while there are any,
unless they are to go too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from extender_api.cluster import decode, paths
from extender_api.cluster.answer import Answer
from extender_api.cluster.client import ClusterClient
from extender_api.cluster.codec import Codec
from extender_api.cluster.gate import Fate, release
from extender_api.cluster.object_kinds import OUR_POD_GROUP
from extender_api.cluster.owner import object_codec
from extender_api.crd import DEFINITION, Definition
from extender_api.doctor import rights, shipped
from extender_api.doctor.facts import HTTP_NOT_FOUND, Right
from extender_api.doctor.listing import ListError, every
from extender_api.errors import TangramError
from extender_api.pod_group_objects.crd import POD_GROUP
from extender_api.queue_objects.crd import QUEUE
from extender_api.settings import Settings
from extender_api.topology_objects.crd import TOPOLOGY
from scheduler.instruction import Release
from scheduler.object_facts import ObjectFacts
from scheduler.pod import PodFacts
from topology import vocabulary

AT_ONCE: Final = 16
PASSES: Final = 30
QUIET_PASSES: Final = 2
"""An API server may add gates for a moment after the policies went: so often in a row no gate must be found."""
PASS_EVERY_S: Final = 1.0
NAMES_SHOWN: Final = 20
OURS: Final[Mapping[Definition, tuple[str, Codec[Any, Any]]]] = {
    QUEUE: (paths.QUEUES, decode.QUEUES),
    TOPOLOGY: (paths.TOPOLOGIES, decode.TOPOLOGIES),
    POD_GROUP: (paths.POD_GROUPS, object_codec(OUR_POD_GROUP, OUR_POD_GROUP.versions[0])),
}
"""Our kinds, and how their objects are listed."""

Written = Mapping[Definition, tuple[str, ...]]
"""Names of the objects of our kinds; kinds without any are absent."""
Say = Callable[[str], None]


class UninstallError(TangramError):
    """Uninstalling stopped; the text says why. What was done stays done, and the command may be repeated."""


@dataclass(frozen=True, slots=True)
class UninstallPlan:
    """What uninstalling meets. All names are `namespace/name`.

    `gated` pods lose their gate. `shares` have no node and ask for a share. `waiting` need a scheduler of our name.
    """

    gated: tuple[PodFacts, ...]
    shares: tuple[str, ...]
    waiting: tuple[str, ...]
    running: int


@dataclass(frozen=True, slots=True)
class UninstallReport:
    """What became of it. `stuck` pods kept their gate: (pod, why). `removed`: the rest of the base is gone, too.

    `written` are the objects of our kinds that are still there, and with them their definitions.
    """

    plan: UninstallPlan
    ungated: int = 0
    stuck: tuple[tuple[str, str], ...] = ()
    removed: bool = False
    written: Written = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """No pod is left with our gate, as the last look found."""
        return not self.stuck and not self.plan.gated


def plan_uninstall(pods: Iterable[PodFacts], scheduler_name: str) -> UninstallPlan:
    """Sorts out the pods of a cluster; those that finished, and those that are none of ours, play no part."""
    alive = sorted((pod for pod in pods if not pod.finished), key=lambda pod: pod.key)
    ours = [pod for pod in alive if pod.scheduler_name == scheduler_name]
    unbound = [pod for pod in ours if pod.node_name is None]
    return UninstallPlan(
        gated=tuple(pod for pod in alive if pod.gated_by_us),
        shares=tuple(pod.key for pod in unbound if _asks_for_share(pod)),
        waiting=tuple(pod.key for pod in unbound),
        running=len(ours) - len(unbound),
    )


async def uninstall(
    client: ClusterClient,
    settings: Settings,
    *,
    dry_run: bool,
    say: Say,
    everything: bool = False,
    delete_objects: bool = False,
) -> UninstallReport:
    """Removes the mutating policies and the gates of waiting pods, then says what is left and how to remove it.

    `everything` also removes the rest of the base, unless pods still wait for a scheduler of our name; definitions of
    our kinds only where there are no objects of them, or with `delete_objects`. `dry_run` only says what would be
    done. Raises UninstallError, ListError and Unreachable.
    """
    await _check_rights(client, everything)
    plan = plan_uninstall(await _pods(client, settings.scheduler_name), settings.scheduler_name)
    written = await _written(client, must=everything)
    if dry_run:
        _say_plan(plan, say)
        _say_written(written, everything, delete_objects, say)
        return UninstallReport(plan, written=written)
    for kind in ("MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicy"):
        for name in shipped.MUTATING:
            await _delete(client, kind, f"{shipped.COLLECTIONS[kind]}/{name}", say)
    report = await _remove_gates(client, plan, settings.scheduler_name, say)
    _say_left(report.plan, settings.scheduler_name, say)
    if everything and report.complete and not report.plan.waiting:
        kept = {} if delete_objects else written
        await _remove_rest(client, {definition.name for definition in kept}, say)
        _say_written(written, everything, delete_objects, say)
        return replace(report, removed=True, written=kept)
    _say_rest(report, everything, say)
    _say_written(written, everything, delete_objects, say)
    return replace(report, written=written)


# -- before ------------------------------------------------------------------------------------------------------------
async def _check_rights(client: ClusterClient, everything: bool) -> None:
    """Stops before anything is done when a later step would be refused."""
    answer = await rights.ask(client, _needed(everything), None)
    if answer.denied:
        raise UninstallError(f"nothing was done: not allowed to {'; '.join(map(str, answer.denied))}")


def _needed(everything: bool) -> Iterator[Right]:
    yield Right("list", "", "pods")
    yield Right("patch", "", "pods")
    for kind, collection in shipped.COLLECTIONS.items():
        if everything or kind.startswith("Mutating"):
            group, resource = collection.split("/")[2], collection.rpartition("/")[2]
            yield Right("delete", "" if kind == "Namespace" else group, resource)
    if everything:
        yield Right("delete", "rbac.authorization.k8s.io", "rolebindings", "kube-system")
        for definition in OURS:
            yield Right("list", vocabulary.API_GROUP, definition.plural)


async def _pods(client: ClusterClient, scheduler_name: str) -> list[PodFacts]:
    """Pods without a node, and all pods of our scheduler name."""
    pods: dict[str, PodFacts] = {}
    for selector in ("spec.nodeName=", f"spec.schedulerName={scheduler_name}"):
        async for found in every(client, paths.PODS, decode.PODS, {"fieldSelector": selector}):
            if found.facts is None:
                raise UninstallError(f"a pod cannot be read: {found.error}")
            pods[found.facts.uid] = found.facts
    return list(pods.values())


async def _written(client: ClusterClient, *, must: bool) -> Written:
    """All objects of our kinds; none where a kind is not defined, or (unless `must`) not ours to list."""
    found: dict[Definition, tuple[str, ...]] = {}
    for definition, (path, codec) in OURS.items():
        try:
            names = [_plain_name(item.key, item.facts) async for item in every(client, path, codec)]
        except ListError as err:
            if must and err.status != HTTP_NOT_FOUND:
                raise
            continue
        if names:
            found[definition] = tuple(names)
    return found


def _plain_name(key: str, facts: Any) -> str:
    """For people: of what is in namespaces the key is no name."""
    return f"{facts.namespace}/{facts.name}" if isinstance(facts, ObjectFacts) else key


def _asks_for_share(pod: PodFacts) -> bool:
    words = (vocabulary.GPU_FRACTION, vocabulary.GPU_MEMORY)
    return any(spelling in pod.annotations for word in words for spelling in word.spellings)


# -- gates -------------------------------------------------------------------------------------------------------------
async def _remove_gates(client: ClusterClient, plan: UninstallPlan, scheduler_name: str, say: Say) -> UninstallReport:
    """Removes gates until none is found any more, several times in a row."""
    ungated, quiet = 0, 0
    stuck: tuple[tuple[str, str], ...] = ()
    for _ in range(PASSES):
        results = await _ungate_all(client, plan.gated)
        stuck = tuple((pod.key, why) for pod, why in zip(plan.gated, results, strict=True) if why)
        ungated += len(plan.gated) - len(stuck)
        quiet = 0 if plan.gated else quiet + 1
        if quiet == QUIET_PASSES:
            break
        await asyncio.sleep(PASS_EVERY_S)
        plan = plan_uninstall(await _pods(client, scheduler_name), scheduler_name)
    say(f"gates removed from {ungated} pods")
    for key, why in stuck:
        say(f"  {key} keeps its gate: {why}")
    if plan.gated:
        say(f"{len(plan.gated)} pods still have the gate{_listed(pod.key for pod in plan.gated)}")
    return UninstallReport(plan, ungated, stuck)


async def _ungate_all(client: ClusterClient, pods: Sequence[PodFacts]) -> list[str]:
    """For each pod why its gate stayed, or an empty text. A pod that is gone has no gate either."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def ungate(pod: PodFacts) -> str:
        async with limit:
            step = await release(client, Release(pod.uid, pod.namespace, pod.name, "", pod.gates, False))
        return "" if step.fate is Fate.DONE or step.status == HTTP_NOT_FOUND else step.text

    return list(await asyncio.gather(*map(ungate, pods)))


# -- the rest ----------------------------------------------------------------------------------------------------------
async def _remove_rest(client: ClusterClient, kept: set[str], say: Say) -> None:
    """Everything of the base but the definitions `kept`."""
    documents = [
        document
        for document in shipped.base()
        if document["kind"] != DEFINITION or document["metadata"]["name"] not in kept
    ]
    for kind, collection in shipped.COLLECTIONS.items():
        if kind == "Namespace":
            for document in documents:
                if document["kind"] == "RoleBinding" and document["metadata"]["namespace"] == "kube-system":
                    name = document["metadata"]["name"]
                    await _delete(client, "RoleBinding", f"{shipped.KUBE_SYSTEM_BINDINGS}/{name}", say)
        for document in documents:
            if document["kind"] == kind:
                await _delete(client, kind, f"{collection}/{document['metadata']['name']}", say)


async def _delete(client: ClusterClient, kind: str, path: str, say: Say) -> None:
    answer: Answer = await client.delete(path)
    name = path.rpartition("/")[2]
    if answer.status == HTTP_NOT_FOUND:
        say(f"{kind} {name} is not there")
    elif answer.ok:
        say(f"{kind} {name} deleted")
    else:
        raise UninstallError(f"{kind} {name} could not be deleted: {answer.message}")


# -- words -------------------------------------------------------------------------------------------------------------
def _say_plan(plan: UninstallPlan, say: Say) -> None:
    say(f"would delete the policies {' and '.join(shipped.MUTATING)} and their bindings")
    say(f"would remove the gate of {len(plan.gated)} pods{_listed(pod.key for pod in plan.gated)}")
    say(f"{plan.running} pods that run would not be touched")
    if plan.shares:
        say(f"{len(plan.shares)} pods wait for a share of a device{_listed(plan.shares)}")


def _say_left(plan: UninstallPlan, scheduler_name: str, say: Say) -> None:
    say(f"{plan.running} pods that run were not touched")
    if plan.waiting:
        say(
            f"{len(plan.waiting)} pods wait for a scheduler named {scheduler_name}{_listed(plan.waiting)}; "
            "it cannot be changed on a pod, so keep a kube-scheduler with that profile until they are gone "
            "(without the extenders it places whole devices)"
        )
    if plan.shares:
        say(
            f"{len(plan.shares)} of them ask for a share{_listed(plan.shares)}: without Tangram they would start with "
            "an empty NVIDIA_VISIBLE_DEVICES; delete them and create them for another scheduler"
        )


def _say_rest(report: UninstallReport, everything: bool, say: Say) -> None:
    if everything:
        say("the rest stays, since pods still need it; repeat the command when they are gone")
    else:
        say("the rest goes with: kubectl delete -k manifests/base (or the overlay that was applied)")
    if not report.complete:
        say("not complete: repeat the command")


def _say_written(written: Written, everything: bool, delete_objects: bool, say: Say) -> None:
    for definition, names in written.items():
        many = f"{len(names)} {definition.kind} objects{_listed(names)}"
        if everything and delete_objects:
            say(f"with their definition go {many}")
        elif everything:
            say(f"their definition stays for {many}; to delete both: --everything --delete-objects")
        else:
            everywhere = " -A" if definition.namespaced else ""
            say(
                f"there are {many}; whoever deletes their definition, as kubectl delete -k does, deletes them: keep a "
                f"copy first with kubectl get {definition.name}{everywhere} -o yaml, or use --everything, which leaves "
                "them"
            )


def _listed(names: Iterable[str]) -> str:
    """`: a, b and 3 more`, or nothing."""
    every_name = list(names)
    if not every_name:
        return ""
    more = f" and {len(every_name) - NAMES_SHOWN} more" if len(every_name) > NAMES_SHOWN else ""
    return f": {', '.join(every_name[:NAMES_SHOWN])}{more}"
