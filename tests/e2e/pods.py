"""Pods as users write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.controlplane.node_models import GPU
from tests.controlplane.resources import Object

LIQO_TOLERATION: Final = {"key": "virtual-node.liqo.io/not-allowed", "operator": "Exists", "effect": "NoExecute"}
"""What Liqo's webhook gives to pods of namespaces that it may offload."""


def pod(
    name: str,
    *,
    limits: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    scheduler: str = "tangram",
    **spec: Any,
) -> Object:
    """A pod with one container; `spec` are further fields of its spec."""
    container = {
        "name": "main",
        "image": "none",
        "resources": {"limits": dict(limits or {}), "requests": {"cpu": "100m", "memory": "128Mi", **(requests or {})}},
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations or {}), "labels": dict(labels or {})},
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
    }


def whole(name: str, count: int = 1, **more: Any) -> Object:
    """A pod that asks for whole devices."""
    return pod(name, limits={GPU: str(count)}, **more)


def fraction(name: str, share: str, devices: int = 1, **more: Any) -> Object:
    """A pod that asks for so much of each of `devices` devices."""
    return pod(name, annotations=_of("gpu-fraction", share, devices), **more)


def memory(name: str, mib: int, devices: int = 1, **more: Any) -> Object:
    """A pod that asks for so much memory of each of `devices` devices."""
    return pod(name, annotations=_of("gpu-memory", str(mib), devices), **more)


def _of(word: str, value: str, devices: int) -> dict[str, str]:
    return {word: value} | ({} if devices == 1 else {"gpu-fraction-num-devices": str(devices)})


def within(namespace: str, *pods: Object) -> list[Object]:
    """The pods, to be created in the namespace."""
    return [{**one, "metadata": {**one["metadata"], "namespace": namespace}} for one in pods]
