"""The checks of a KubeSchedulerConfiguration: the shipped ones are well, and every way to spoil one is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from extender_api.doctor import configuration, scheduler, shipped
from extender_api.doctor.finding import Finding, Level, worst
from extender_api.settings import Settings

Change = Callable[[dict[str, Any]], None]


def text_of(mode: str, file: str = "scheduler.yaml") -> str:
    return (shipped.folder() / mode / "config" / file).read_text("utf-8")


def settings_of(mode: str) -> Settings:
    return Settings.model_validate(yaml.safe_load(text_of(mode, "tangram.yaml")))


def findings(change: Change, mode: str = "base", **kwargs: Any) -> list[Finding]:
    document = yaml.safe_load(text_of(mode))
    change(document)
    return list(scheduler.check(yaml.safe_dump(document), settings_of(mode), source="test", **kwargs))


@pytest.mark.parametrize(("mode", "replicas"), [("base", 2), ("advise", 1)])
def test_shipped_configuration_is_well(mode: str, replicas: int) -> None:
    found = list(scheduler.check(text_of(mode), settings_of(mode), source="x", replicas=replicas, nodes=5000))
    assert [finding.level for finding in found] == [Level.OK], found


def _set(path: str, value: Any) -> Change:
    *parents, last = path.split(".")

    def change(document: dict[str, Any]) -> None:
        target: Any = document
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target[part]
        if value is None:
            target.pop(last)
        else:
            target[last] = value

    return change


SPOILT: list[tuple[str, Any, Level, str]] = [
    ("percentageOfNodesToScore", None, Level.WARN, "percentageOfNodesToScore is not set"),
    ("percentageOfNodesToScore", 50, Level.WARN, "percentageOfNodesToScore is 50"),
    ("clientConnection", None, Level.WARN, "clientConnection.qps is 50"),
    ("profiles.0.schedulerName", "other", Level.ERROR, "no profile has the schedulerName tangram"),
    ("profiles.0.plugins", None, Level.ERROR, "DefaultPreemption is on"),
    ("extenders.0.urlPrefix", "http://127.0.0.1:9999/v1", Level.ERROR, "calls port 9999"),
    ("extenders.0.urlPrefix", "http://127.0.0.1/v1/", Level.ERROR, "calls port 80"),
    ("extenders.0.nodeCacheCapable", False, Level.ERROR, "nodeCacheCapable"),
    ("extenders.0.nodeCacheCapable", None, Level.ERROR, "nodeCacheCapable"),
    ("extenders.0.ignorable", True, Level.ERROR, "ignorable is true"),
    ("extenders.1.ignorable", True, Level.ERROR, "ignorable is true"),
    ("extenders.0.filterVerb", "Filter", Level.ERROR, "filterVerb is Filter"),
    ("extenders.0.filterVerb", None, Level.ERROR, "no entry has filterVerb"),
    ("extenders.1.bindVerb", None, Level.ERROR, "no entry has bindVerb"),
    ("extenders.0.bindVerb", "bind", Level.ERROR, "2 entries ask Tangram to bind"),
    ("extenders.0.httpTimeout", "30s", Level.WARN, "httpTimeout is 30 s"),
    ("extenders.0.httpTimeout", "soon", Level.ERROR, "httpTimeout is not a duration"),
    ("extenders.1.httpTimeout", None, Level.ERROR, "httpTimeout is 5 s; a bind"),
    ("extenders.1.httpTimeout", "0s", Level.ERROR, "httpTimeout is 5 s; a bind"),
    ("extenders.0.managedResources", [{"name": "nvidia.com/gpu"}], Level.ERROR, "managedResources is set"),
    ("extenders.1.urlPrefix", "http://127.0.0.1:8888/advise/v1", Level.ERROR, "the two modes contradict"),
    ("leaderElection.resourceName", "else", Level.ERROR, "Tangram follows tangram-system/tangram"),
    ("leaderElection.leaderElect", False, Level.ERROR, "leaderElect is false"),
    ("leaderElection", None, Level.ERROR, "is that of the cluster's own kube-scheduler"),
    ("extenders", None, Level.ERROR, "no extender entry calls Tangram"),
    ("kind", "Scheduler", Level.ERROR, "kind is not KubeSchedulerConfiguration"),
    ("extenders.0.weight", "many", Level.ERROR, "wrong type"),
]


@pytest.mark.parametrize(("path", "value", "level", "text"), SPOILT)
def test_what_is_spoilt_is_found(path: str, value: Any, level: Level, text: str) -> None:
    found = findings(_set(path, value), replicas=2)
    hits = [finding for finding in found if text in finding.found]
    assert [finding.level for finding in hits] == [level], found
    assert all(finding.mend for finding in hits)


def test_sampling_is_an_error_where_it_bites() -> None:
    assert worst(findings(_set("percentageOfNodesToScore", 50), nodes=99)) is Level.WARN
    assert worst(findings(_set("percentageOfNodesToScore", 50), nodes=100)) is Level.ERROR
    assert worst(findings(_set("profiles.0.percentageOfNodesToScore", 50), nodes=100)) is Level.ERROR


def test_preemption_is_allowed_with_our_verb() -> None:
    def change(document: dict[str, Any]) -> None:
        document["profiles"][0].pop("plugins")
        document["extenders"][0]["preemptVerb"] = "preempt"

    assert worst(findings(change)) is Level.OK


@pytest.mark.parametrize(
    ("plugins", "level"),
    [
        ({"postFilter": {"disabled": [{"name": "*"}]}}, Level.OK),
        ({"multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}}, Level.OK),
        (
            {"postFilter": {"disabled": [{"name": "*"}], "enabled": [{"name": "DefaultPreemption"}]}},
            Level.ERROR,
        ),
    ],
)
def test_ways_to_switch_preemption_off(plugins: dict[str, Any], level: Level) -> None:
    assert worst(findings(_set("profiles.0.plugins", plugins))) is level


def test_default_profile_beside_ours_is_warned_about() -> None:
    def change(document: dict[str, Any]) -> None:
        document["profiles"].append({**document["profiles"][0], "schedulerName": "default-scheduler"})

    (found,) = findings(change)
    assert found.level is Level.WARN
    assert "default-scheduler" in found.found


def test_other_extenders_are_found() -> None:
    def binder(document: dict[str, Any]) -> None:
        document["extenders"].append({"urlPrefix": "http://hami/x", "filterVerb": "filter", "bindVerb": "bind"})

    def judge(document: dict[str, Any]) -> None:
        document["extenders"].append({"urlPrefix": "http://hami/x", "filterVerb": "filter"})

    assert [(found.level, "binds as well" in found.found) for found in findings(binder)] == [(Level.ERROR, True)]
    assert [(found.level, "second extender" in found.found) for found in findings(judge)] == [(Level.WARN, True)]


def test_two_replicas_that_both_act_are_found() -> None:
    settings = settings_of("base").model_copy(update={"lease": Settings().lease})
    text = text_of("base")
    assert worst(scheduler.check(text, settings, source="x", replicas=2)) is Level.ERROR
    assert worst(scheduler.check(text, settings, source="x", replicas=1)) is Level.OK


@pytest.mark.parametrize(
    ("path", "value", "level"),
    [
        ("extenders.0.bindVerb", "bind", Level.ERROR),
        ("extenders.0.prioritizeVerb", None, Level.ERROR),
        ("extenders.0.weight", 1, Level.WARN),
    ],
)
def test_advise_mode_has_rules_of_its_own(path: str, value: Any, level: Level) -> None:
    assert worst(findings(_set(path, value), "advise")) is level


def test_text_that_is_no_yaml_is_found() -> None:
    (found,) = scheduler.check("a: [", Settings(), source="file x")
    assert found.level is Level.ERROR
    assert "not YAML" in found.found
    assert "file x" in found.title


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3s", 3.0), ("1m30s", 90.0), ("500ms", 0.5), ("1.5h", 5400.0), ("3", None), ("", None), ("3s!", None), (3, None)],
)
def test_durations(text: object, seconds: float | None) -> None:
    assert configuration.seconds(text) == seconds
