"""Checks of a KubeSchedulerConfiguration, by itself and against the settings of the Tangram beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from extender_api.doctor.configuration import (
    ADVISE_PATH,
    DEFAULT_TIMEOUT_S,
    PLAN_PATH,
    Configuration,
    ConfigurationError,
    Entry,
    parse,
)
from extender_api.doctor.finding import Finding, error, ok, warn
from extender_api.settings import Settings, parse_address

BIND_LEAST_S: Final = 60.0
"""A bind may wait for the other members of its gang; kube-scheduler has to wait longer."""
FILTER_MOST_S: Final = 10.0
"""kube-scheduler places nobody while a filter call hangs."""
ADVISE_LEAST_WEIGHT: Final = 15
"""From here on one step of Tangram's order outweighs the scores of all built-in plugins."""
SAMPLED_FROM_NODES: Final = 100
"""kube-scheduler looks at all nodes of smaller clusters."""
MIN_QPS: Final = 200.0


def check(text: str, settings: Settings, *, source: str, replicas: int = 1, nodes: int = 0) -> Iterator[Finding]:
    """Findings about the configuration in `text`, which stands in `source`.

    `settings` are those of the Tangram that it calls, `replicas` how many pairs run, `nodes` the size of the cluster.
    """
    title = f"scheduler configuration ({source})"
    try:
        configuration = parse(text)
    except ConfigurationError as err:
        yield error(title, str(err), "start from the shipped file: manifests/base/config/scheduler.yaml")
        return
    if not configuration.ours:
        yield error(
            title,
            f"no extender entry calls Tangram (a urlPrefix that ends in {PLAN_PATH} or {ADVISE_PATH})",
            "add the entries of manifests/base/config/scheduler.yaml",
        )
        return
    troubles = [
        *_profiles(configuration, settings, title),
        *_verbs(configuration, title),
        *(finding for entry in configuration.ours for finding in _entry(entry, configuration, settings, title)),
        *_others(configuration, title),
        *_sampling(configuration, nodes, title),
        *_election(configuration, settings, replicas, title),
    ]
    yield from troubles
    if not troubles:
        mode = "advise" if configuration.advises else "plan"
        names = ", ".join(profile.scheduler_name for profile in configuration.profiles)
        yield ok(title, f"{mode} mode for schedulerName {names}")


def _profiles(configuration: Configuration, settings: Settings, title: str) -> Iterator[Finding]:
    names = {profile.scheduler_name for profile in configuration.profiles}
    if not configuration.advises and settings.scheduler_name not in names:
        yield error(
            title,
            f"no profile has the schedulerName {settings.scheduler_name}, which is Tangram's setting scheduler_name; "
            f"profiles: {', '.join(sorted(names))}",
            f"name a profile {settings.scheduler_name}, or set scheduler_name to that of a profile",
        )
    if "default-scheduler" in names:
        yield warn(
            title,
            "the profile default-scheduler shares its process with Tangram's entries: extenders serve every profile, "
            "so a pod that has nothing to do with devices waits when Tangram does",
            "run a kube-scheduler of its own for Tangram, with its own scheduler name",
        )
    for profile in configuration.profiles:
        preempts_with_us = any("preempt" in entry.verbs for entry in configuration.ours)
        if profile.preempts and not configuration.advises and not preempts_with_us:
            yield error(
                title,
                f"profile {profile.scheduler_name}: the plugin DefaultPreemption is on and no entry has "
                "preemptVerb: it evicts pods without regard to devices, queues and gangs",
                "disable it under plugins.postFilter.disabled, or set preemptVerb: preempt on Tangram's filter entry",
            )


def _verbs(configuration: Configuration, title: str) -> Iterator[Finding]:
    ours = configuration.ours
    for verb in ("filter", "prioritize", "preempt", "bind"):
        count = sum(verb in entry.verbs for entry in ours)
        if count > 1:
            yield error(title, f"{count} entries ask Tangram to {verb}", f"keep {verb}Verb in one of them")
    served = {verb for entry in ours for verb in entry.verbs}
    wanted = {"filter", "prioritize"} if configuration.advises else {"filter", "bind"}
    for verb in sorted(wanted - served):
        yield error(title, f"no entry has {verb}Verb", f"set {verb}Verb: {verb}")
    if configuration.advises and "bind" in served:
        yield error(
            title,
            "an entry of advise mode has bindVerb; there Tangram binds nothing",
            f"remove bindVerb, or use the path {PLAN_PATH} for plan mode",
        )
    if {entry.path for entry in ours} == {PLAN_PATH, ADVISE_PATH}:
        yield error(
            title,
            f"entries for both {PLAN_PATH} and {ADVISE_PATH}: the two modes contradict each other in one process",
            "keep the entries of one mode",
        )


def _entry(entry: Entry, configuration: Configuration, settings: Settings, title: str) -> Iterator[Finding]:
    for verb, written in entry.verbs.items():
        if written != verb:
            yield error(title, f"{entry.label}: {verb}Verb is {written}", f"set {verb}Verb: {verb}")
    port = parse_address(settings.extender.address).port
    if entry.port != port:
        yield error(
            title,
            f"{entry.label} calls port {entry.port or 80}; Tangram listens on {settings.extender.address}",
            f"use port {port} in urlPrefix, or set extender.address",
        )
    if not entry.node_cache_capable:
        yield error(
            title,
            f"{entry.label}: nodeCacheCapable is not true, so whole Node objects are sent, and what comes back counts "
            "as empty nodes",
            "set nodeCacheCapable: true",
        )
    if entry.ignorable:
        yield error(
            title,
            f"{entry.label}: ignorable is true, so pods are placed and bound without Tangram when it does not answer",
            "set ignorable: false",
        )
    if entry.managed_resources:
        yield error(
            title,
            f"{entry.label}: managedResources is set, so pods that ask for a share in annotations are never sent",
            "remove managedResources",
        )
    if configuration.advises and "prioritize" in entry.verbs and entry.weight < ADVISE_LEAST_WEIGHT:
        yield warn(
            title,
            f"{entry.label}: weight {entry.weight} lets the built-in scores overrule Tangram's order",
            f"set weight: {ADVISE_LEAST_WEIGHT}",
        )
    yield from _timeout(entry, title)


def _timeout(entry: Entry, title: str) -> Iterator[Finding]:
    if entry.timeout_s is None:
        yield error(title, f"{entry.label}: httpTimeout is not a duration", "write it as 3s or 120s")
        return
    limit_s = entry.timeout_s or DEFAULT_TIMEOUT_S
    if "bind" in entry.verbs and limit_s < BIND_LEAST_S:
        yield error(
            title,
            f"{entry.label}: httpTimeout is {limit_s:g} s; a bind that waits for its gang takes longer",
            "give the bind verb an entry of its own with httpTimeout: 120s",
        )
    if "filter" in entry.verbs and limit_s > FILTER_MOST_S:
        yield warn(
            title,
            f"{entry.label}: httpTimeout is {limit_s:g} s; while a filter call hangs nobody is placed",
            "give the filter verb an entry of its own with httpTimeout: 3s",
        )


def _others(configuration: Configuration, title: str) -> Iterator[Finding]:
    others = [entry for entry in configuration.entries if not entry.ours]
    binders = [entry for entry in others if "bind" in entry.verbs]
    for entry in binders:
        yield error(
            title,
            f"{entry.label} binds as well; kube-scheduler allows one binder, and only Tangram writes the devices",
            "remove its bindVerb",
        )
    for entry in others:
        if entry not in binders:
            yield warn(
                title,
                f"{entry.label} is a second extender in this process: it may take away the node that Tangram planned, "
                "and every pod of ours pays for its answer",
                "give it a kube-scheduler of its own",
            )


def _sampling(configuration: Configuration, nodes: int, title: str) -> Iterator[Finding]:
    for profile in configuration.profiles:
        percentage = configuration.percentage if profile.percentage is None else profile.percentage
        if percentage >= 100:
            continue
        level = error if nodes >= SAMPLED_FROM_NODES else warn
        yield level(
            title,
            f"profile {profile.scheduler_name}: percentageOfNodesToScore is {percentage or 'not set'}, so from "
            f"{SAMPLED_FROM_NODES} nodes on Tangram is offered only some of those that fit",
            "set percentageOfNodesToScore: 100",
        )


def _election(configuration: Configuration, settings: Settings, replicas: int, title: str) -> Iterator[Finding]:
    if configuration.qps < MIN_QPS:
        yield warn(
            title,
            f"clientConnection.qps is {configuration.qps:g}: kube-scheduler holds back its own calls",
            "set clientConnection: {qps: 500, burst: 1000}",
        )
    if not configuration.elects:
        if replicas > 1 or settings.lease.mode == "follow":
            yield error(
                title,
                f"leaderElect is false with {replicas} replica(s) and Tangram's lease.mode {settings.lease.mode}",
                "set leaderElection.leaderElect: true",
            )
        return
    lease = f"{configuration.lease_namespace}/{configuration.lease_name}"
    followed = f"{settings.lease.namespace}/{settings.lease.name}"
    if settings.lease.mode == "off":
        if replicas > 1:
            yield error(
                title,
                f"{replicas} replicas run and Tangram's lease.mode is off: every one of them acts",
                f"set lease: {{mode: follow, namespace: {configuration.lease_namespace}, "
                f"name: {configuration.lease_name}}} in Tangram's settings",
            )
    elif lease != followed:
        yield error(
            title,
            f"kube-scheduler takes the Lease {lease}, Tangram follows {followed}: no replica would ever act",
            f"set lease.namespace: {configuration.lease_namespace} and lease.name: {configuration.lease_name}",
        )
    if configuration.lease_name == "kube-scheduler" and configuration.lease_namespace == "kube-system":
        yield error(
            title,
            "its Lease is that of the cluster's own kube-scheduler: only one of the two would ever run",
            "set leaderElection.resourceName and resourceNamespace to a Lease of its own",
        )
