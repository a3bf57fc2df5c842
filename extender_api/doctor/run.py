"""Collects the facts and runs every check on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml
from pydantic import ValidationError

from extender_api import __version__
from extender_api.cluster.answer import Unreachable
from extender_api.cluster.client import ClusterClient
from extender_api.core_settings import inventory_settings
from extender_api.doctor import cluster, policies, queues, scheduler
from extender_api.doctor.collect import collect
from extender_api.doctor.configuration import ConfigurationError, parse
from extender_api.doctor.facts import Facts, Installation
from extender_api.doctor.finding import Finding, error, warn
from extender_api.settings import Settings


async def run_doctor(client: ClusterClient, settings: Settings, config_path: Path | None = None) -> list[Finding]:
    """Everything the doctor finds, in the order in which it looks.

    `settings` are those of the command line; an installation is judged by the settings in its own ConfigMap. With
    `config_path` the KubeSchedulerConfiguration in that file is checked too. Never raises for what it finds.
    """
    try:
        inventory = inventory_settings(settings)
    except ValueError as err:
        return [error("settings", str(err), "correct the settings")]
    try:
        facts = await collect(client, inventory)
    except Unreachable as err:
        return [error("API server", f"no answer: {err}", "see whether the kubeconfig names the right cluster")]
    return list(judge(facts, settings, config_path))


def judge(facts: Facts, settings: Settings, config_path: Path | None) -> Iterator[Finding]:
    """All findings about the facts; reads no cluster."""
    planning = [installation for installation in facts.installations if not _advises(installation)]
    if planning or not facts.installations:
        yield from policies.check(facts)
    for installation in facts.installations:
        yield from _configuration(installation, len(facts.nodes))
    if config_path is not None:
        yield from _file(config_path, settings, len(facts.nodes))
    elif not facts.installations:
        yield warn(
            "scheduler configuration",
            "no Deployment has the label app.kubernetes.io/part-of=tangram",
            "apply the shipped manifests, or name the file that your kube-scheduler reads",
        )
    yield from cluster.check(facts, __version__)
    for installation in planning:
        yield from queues.check(facts, _settings(installation)[0], installation.files)
    if not facts.installations:
        yield from queues.check(facts, settings, None)


def _advises(installation: Installation) -> bool:
    try:
        return installation.scheduler_text is not None and parse(installation.scheduler_text).advises
    except ConfigurationError:
        return False


def _configuration(installation: Installation, nodes: int) -> Iterator[Finding]:
    title = f"settings of {installation.key}"
    if installation.scheduler_text is None:
        yield warn(
            title,
            "its ConfigMap has no scheduler.yaml that could be read",
            "run the doctor as an administrator, or name the file that its kube-scheduler reads",
        )
        return
    settings, problem = _settings(installation)
    if problem:
        yield error(title, f"Tangram cannot read them: {problem}", "correct tangram.yaml")
    yield from scheduler.check(
        installation.scheduler_text,
        settings,
        source=installation.key,
        replicas=installation.replicas,
        nodes=nodes,
    )


def _settings(installation: Installation) -> tuple[Settings, str]:
    """The settings in its ConfigMap, the defaults where they cannot be read; and why they cannot."""
    try:
        return Settings.model_validate(yaml.safe_load(installation.tangram_text or "") or {}), ""
    except (yaml.YAMLError, ValidationError) as err:
        return Settings(), " ".join(str(err).split())


def _file(path: Path, settings: Settings, nodes: int) -> Iterator[Finding]:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as err:
        yield error(f"scheduler configuration ({path})", f"cannot be read: {err}", "name a file that can be read")
        return
    yield from scheduler.check(text, settings, source=str(path), nodes=nodes)
