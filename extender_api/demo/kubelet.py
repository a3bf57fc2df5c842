"""The nodes of the demo: pods run where they are bound, end by themselves, and are refused where they do not fit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from extender_api.demo.accounts import Accounts
from extender_api.demo.embedded import EmbeddedCluster, EventKind
from extender_api.demo.objects import Object


class Kubelets:
    """Plays every node of `cluster`, by the books of `accounts`.

    `runs_s` gives the seconds that a pod runs, by uid; without an entry, for ever.
    """

    def __init__(self, cluster: EmbeddedCluster, accounts: Accounts, runs_s: Mapping[str, float]) -> None:
        self._cluster = cluster
        self._accounts = accounts
        self._runs_s = runs_s
        cluster.watch(self._changed)

    def _changed(self, kind: EventKind, document: Object) -> None:
        if document["kind"] == "Node":
            self._accounts.add_node(document)
        elif kind == "MODIFIED" and document["spec"].get("nodeName") and document["status"]["phase"] == "Pending":
            self._start(document)

    def _start(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if self._accounts.holds(uid):
            return
        problem = self._accounts.admit(pod)
        if problem:
            self._cluster.set_status(uid, phase="Failed", reason="UnexpectedAdmissionError", message=problem)
            return
        self._cluster.set_status(uid, phase="Running")
        if uid in self._runs_s:
            asyncio.get_running_loop().call_later(self._runs_s[uid], self._finish, uid)

    def _finish(self, uid: str) -> None:
        self._accounts.release(uid)
        self._cluster.set_status(uid, phase="Succeeded")
        self._cluster.delete_pod(uid)
