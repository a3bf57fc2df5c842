"""A KubeSchedulerConfiguration as the doctor reads it: profiles, extender entries, the Lease."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

PLAN_PATH: Final = "/v1"
ADVISE_PATH: Final = "/advise/v1"
DEFAULT_TIMEOUT_S: Final = 5.0
"""What kube-scheduler takes where an entry has no httpTimeout."""
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s|us|µs|ns)")


class ConfigurationError(ValueError):
    """Text that is no KubeSchedulerConfiguration."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of `extenders`."""

    number: int
    url: str
    verbs: Mapping[str, str]
    """filter, prioritize, preempt, bind → the verb as it is written; absent verbs are left out."""
    timeout_s: float | None
    node_cache_capable: bool
    ignorable: bool
    weight: int
    managed_resources: tuple[str, ...]

    @property
    def path(self) -> str:
        """Path of the URL without a trailing slash."""
        return urlsplit(self.url).path.rstrip("/")

    @property
    def port(self) -> int | None:
        """Port of the URL; None where it has none or a bad one."""
        try:
            return urlsplit(self.url).port
        except ValueError:
            return None

    @property
    def ours(self) -> bool:
        """It calls Tangram, as far as the path tells."""
        return self.path in (PLAN_PATH, ADVISE_PATH)

    @property
    def label(self) -> str:
        """How texts name it."""
        return f"extenders[{self.number}] ({self.url})"


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile; `preempts`: the plugin DefaultPreemption is on. `percentage` None: not set here."""

    scheduler_name: str
    preempts: bool
    percentage: int | None


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the doctor reads of the file. `percentage` 0 is kube-scheduler's own default."""

    profiles: tuple[Profile, ...]
    entries: tuple[Entry, ...]
    percentage: int
    elects: bool
    lease_namespace: str
    lease_name: str
    qps: float

    @property
    def ours(self) -> tuple[Entry, ...]:
        """The entries that call Tangram."""
        return tuple(entry for entry in self.entries if entry.ours)

    @property
    def advises(self) -> bool:
        """Every entry of ours is for advise mode."""
        return bool(self.ours) and all(entry.path == ADVISE_PATH for entry in self.ours)


def parse(text: str) -> Configuration:
    """Reads the file. Raises ConfigurationError with what is wrong."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as err:
        raise ConfigurationError(f"not YAML: {' '.join(str(err).split())}") from None
    if not isinstance(document, Mapping) or document.get("kind") != "KubeSchedulerConfiguration":
        raise ConfigurationError("its kind is not KubeSchedulerConfiguration")
    try:
        return _configuration(document)
    except (TypeError, ValueError, AttributeError, KeyError) as err:
        raise ConfigurationError(f"a value has the wrong type: {err}") from None


def seconds(text: object) -> float | None:
    """A duration as Go writes it (`1m30s`), or None where there is none or it cannot be read."""
    if not isinstance(text, str):
        return None
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _configuration(document: Mapping[str, Any]) -> Configuration:
    election = document.get("leaderElection") or {}
    connection = document.get("clientConnection") or {}
    return Configuration(
        profiles=tuple(_profile(profile) for profile in document.get("profiles") or [{}]),
        entries=tuple(_entry(number, entry) for number, entry in enumerate(document.get("extenders") or [])),
        percentage=int(document.get("percentageOfNodesToScore") or 0),
        elects=election.get("leaderElect", True) is not False,
        lease_namespace=str(election.get("resourceNamespace") or "kube-system"),
        lease_name=str(election.get("resourceName") or "kube-scheduler"),
        qps=float(connection.get("qps") or 50),
    )


def _profile(profile: Mapping[str, Any]) -> Profile:
    plugins = profile.get("plugins") or {}
    off = {
        plugin["name"]
        for point in ("postFilter", "multiPoint")
        for plugin in (plugins.get(point) or {}).get("disabled") or ()
    }
    on = {plugin["name"] for plugin in (plugins.get("postFilter") or {}).get("enabled") or ()}
    percentage = profile.get("percentageOfNodesToScore")
    return Profile(
        scheduler_name=str(profile.get("schedulerName") or "default-scheduler"),
        preempts="DefaultPreemption" in on or not off & {"DefaultPreemption", "*"},
        percentage=None if percentage is None else int(percentage),
    )


def _entry(number: int, entry: Mapping[str, Any]) -> Entry:
    verbs = {
        verb: str(entry[f"{verb}Verb"])
        for verb in ("filter", "prioritize", "preempt", "bind")
        if entry.get(f"{verb}Verb")
    }
    return Entry(
        number=number,
        url=str(entry.get("urlPrefix", "")),
        verbs=verbs,
        timeout_s=DEFAULT_TIMEOUT_S if entry.get("httpTimeout") is None else seconds(entry["httpTimeout"]),
        node_cache_capable=entry.get("nodeCacheCapable") is True,
        ignorable=entry.get("ignorable") is True,
        weight=int(entry.get("weight") or 0),
        managed_resources=tuple(str(resource["name"]) for resource in entry.get("managedResources") or ()),
    )
