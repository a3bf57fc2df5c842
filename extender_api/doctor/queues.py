"""Checks of queues: the definition, documents that cannot be read, the tree, quotas, GPU models and defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from extender_api import queue_text
from extender_api.cluster.fields import DecodeError
from extender_api.doctor import shipped
from extender_api.doctor.facts import Facts, Seen
from extender_api.doctor.finding import Finding, error, ok, warn
from extender_api.doctor.policies import APPLY, SHOWN, differences
from extender_api.queue_objects.file import FileContent, read_file
from extender_api.settings import Settings
from queues import access
from queues.access import Refusal
from queues.amounts import RESOURCES, UNLIMITED, Amounts
from queues.tree import BREAKING, Defect, Tree
from scheduler.node_classes import capacity_of
from topology import gpu_model, vocabulary

TITLE: Final = "queues"
MEND: Final[Mapping[Defect, str]] = {
    Defect.PARENT_MISSING: "create the parent, or name another one: until then nothing below it starts",
    Defect.CYCLE: "let one of these queues name another parent, or none: until then nothing in them starts",
    Defect.DEFINED_TWICE: "delete the one that is ignored, or rename it",
    Defect.CHILDREN_EXCEED_QUOTA: "raise its quota, or lower theirs: they cannot all be honoured at once",
    Defect.CHILD_EXCEEDS_LIMIT: "lower its limit, or raise that of its parent",
    Defect.STARVED_CHILDREN: "set its overQuotaWeight to 1, unless its quota is all that it is to have",
    Defect.LIMIT_ZERO: "set its limit, -1 for none, unless nothing is to start there",
}
DEFAULTS: Final[Mapping[Refusal, str]] = {
    Refusal.QUEUE_DOES_NOT_EXIST: "does not exist",
    Refusal.QUEUE_BROKEN: "is not in the tree",
    Refusal.QUEUE_NOT_A_LEAF: "has queues below it, and only those without take work",
    Refusal.QUEUE_NOT_ALLOWED: "does not allow this namespace",
}


def check(facts: Facts, settings: Settings, mounted: Mapping[str, str] | None) -> Iterator[Finding]:
    """Findings about the queues of one Tangram with these settings.

    `mounted` has the files of its ConfigMaps by name; None: it runs here, and its files can be read.
    """
    yield from _definition(facts.queue_definition)
    for text in facts.unreadable_queues:
        yield error("queue", f"cannot be read: {text}", "correct that field; what Tangram read before stays in force")
    content = FileContent()
    if settings.queues.file is not None:
        content, troubles = _file(settings.queues.file, mounted)
        yield from troubles
    tree = Tree((*facts.queues, *content.queues))
    findings = [*_tree(tree), *_capacity(tree, facts), *_uneven(tree)]
    findings += [*_models(tree, facts), *_defaults(tree, facts, settings)]
    yield from findings
    if tree.implicit:
        yield ok(TITLE, "none are defined: there is one queue, unlimited in everything")
    elif not findings:
        unnamed = "wait" if settings.queues.default is None else f"are in {settings.queues.default}"
        leaves = sum(1 for _ in tree.leaves)
        yield ok(TITLE, f"{len(tree.queues)}, of which {leaves} take work; pods that name none {unnamed}")


def _definition(seen: Seen) -> Iterator[Finding]:
    """Our kind need not be there; where it is, it should be the one that this Tangram knows."""
    if not seen.exists:
        return
    differing = differences(shipped.queue_definition()["spec"], seen.body["spec"])
    if differing:
        more = f" and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
        yield warn(
            "definition of Queue", f"differs from the shipped one in {', '.join(differing[:SHOWN])}{more}", APPLY
        )


def _file(path: Path, mounted: Mapping[str, str] | None) -> tuple[FileContent, list[Finding]]:
    title = f"file of queues ({path})"
    try:
        text = path.read_text("utf-8") if mounted is None else mounted.get(path.name)
        if text is None:
            mend = "mount it from a ConfigMap under this name, or look at it with tangram plan"
            return FileContent(), [warn(title, "is in no ConfigMap of the pod, so it was not looked at", mend)]
        content = read_file(text, path.name)
    except (OSError, UnicodeDecodeError, DecodeError) as err:
        return FileContent(), [error(title, f"cannot be read: {err}", "correct it; a Tangram that starts waits for it")]
    mend = "correct that document; what Tangram read of it before stays in force"
    return content, [error(title, problem, mend) for problem in content.problems]


def _tree(tree: Tree) -> Iterator[Finding]:
    """What is wrong with the tree, one finding for each queue and defect."""
    grouped: dict[tuple[str, Defect], list[str]] = {}
    for found in tree.findings:
        sentence = queue_text.finding(found).removeprefix(f"queue {found.queue}: ")
        grouped.setdefault((found.queue, found.defect), []).append(sentence)
    for (name, defect), sentences in grouped.items():
        level = error if defect in BREAKING else warn
        yield level(f"queue {name}", "; ".join(sentences), MEND[defect])


def _capacity(tree: Tree, facts: Facts) -> Iterator[Finding]:
    """Quotas that the cluster could not honour even if nothing else ran."""
    total = Amounts()
    for node in facts.nodes:
        total = total.plus(capacity_of(node))
    for index, resource in enumerate(RESOURCES):
        quotas = [tree.queues[name].spec.terms[index].quota for name in tree.roots]
        promised = sum(quota for quota in quotas if quota != UNLIMITED)
        if not tree.implicit and promised > total[index]:
            yield warn(
                "quotas",
                f"those of the top queues come to {queue_text.amount(resource, promised)}; the nodes that are ready "
                f"have {queue_text.amount(resource, total[index])}",
                "lower them, or add nodes: not all of them can be honoured at once",
            )


def _uneven(tree: Tree) -> Iterator[Finding]:
    """Quotas of devices that non-preemptible work cannot use, since it needs CPU and memory as well."""
    for queue in tree.queues.values():
        lacking = [
            queue_text.RESOURCES[name] for name, held in zip(RESOURCES, queue.spec.quota, strict=True) if not held
        ]
        if lacking and queue.spec.gpu.quota:
            yield warn(
                f"queue {queue.name}",
                f"it has a quota of GPUs and none of {' and '.join(lacking)}: non-preemptible work, which stays within "
                "all quotas, cannot start",
                f"set a quota of {' and '.join(lacking)}, too; -1 for no bound",
            )


def _models(tree: Tree, facts: Facts) -> Iterator[Finding]:
    """Keys of GPU models that no node here has."""
    products = sorted({node.product for node in facts.nodes if node.product})
    users: dict[str, list[str]] = {}
    for queue in tree.queues.values():
        for key in queue.spec.models:
            users.setdefault(key, []).append(queue.name)
    for key, names in sorted(users.items()):
        if not any(gpu_model.matches(key, product) for product in products):
            yield warn(
                f"GPU model {key}",
                f"matches the product of no node ({', '.join(products) or 'no node tells its product'}), so it has no "
                f"effect in {_some(names)}",
                "write it as node labels have it, whole or its leading parts between '-'",
            )


def _defaults(tree: Tree, facts: Facts, settings: Settings) -> Iterator[Finding]:
    """Default queues that take no work, of the settings and of namespaces."""
    if tree.implicit:
        return
    default = settings.queues.default
    if default is not None and (why := _refused(tree, default)):
        yield error(
            "default queue",
            f"{default}, which the setting queues.default names, {why}: pods that name no queue wait",
            "create it, or name another queue in the settings",
        )
    for namespace, labels in sorted(facts.namespaces.items()):
        for key in vocabulary.DEFAULT_QUEUE.spellings:
            name = labels.get(key)
            if name and (why := _refused(tree, name, namespace, labels)):
                yield error(
                    f"default queue of namespace {namespace}",
                    f"{name}, which its label {key} names, {why}: its pods that name no queue wait",
                    "correct the label, or the queue",
                )


def _refused(tree: Tree, name: str, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> str:
    """Why the queue takes no work (of a namespace), or ""."""
    refusal = access.choose(tree, name, namespace or "", labels or {}, None).refusal
    if refusal is None or (refusal is Refusal.QUEUE_NOT_ALLOWED and namespace is None):
        return ""
    return DEFAULTS[refusal]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{'queue' if len(names) == 1 else 'queues'} {', '.join(names[:SHOWN])}{more}"
