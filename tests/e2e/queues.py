"""Queue objects as administrators write them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.controlplane.kube import Kube
from tests.controlplane.resources import Object, Resource

QUEUES: Final = Resource("tangram.scheduler/v1alpha1", "queues", False)
LABEL: Final = "tangram.scheduler/queue"


def queue(name: str, **spec: Any) -> Object:
    """A Queue of ours."""
    return {"apiVersion": QUEUES.group_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def gpus(quota: float | str | None = None, limit: float | str | None = None, weight: float | None = None) -> Object:
    """`resources` with terms for devices; what is None is not said."""
    terms = {"quota": quota, "limit": limit, "overQuotaWeight": weight}
    return {"gpu": {key: value for key, value in terms.items() if value is not None}}


@contextmanager
def queues(kube: Kube, *documents: Object) -> Iterator[None]:
    """Creates the queues; all Queues there are are gone afterwards, for the tests that follow."""
    kube.wait_until_served(QUEUES)
    for document in documents:
        kube.create(document)
    try:
        yield
    finally:
        for found in kube.list(QUEUES):
            kube.delete(QUEUES, found["metadata"]["name"])
