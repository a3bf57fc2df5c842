"""The webhooks: `/v1/*` is plan mode, `/advise/v1/*` is advise mode (a request does not show its entry)."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from extender_api import text, wire, wire_read
from extender_api.cluster.decode import decode_pod
from extender_api.decider import Decider
from extender_api.errors import MalformedRequest, NoAnswer
from extender_api.wire import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
)
from extender_api.wire_route import DEFAULT_LIMIT_BYTES, WireApp, wire_route
from scheduler.pod import PodFacts
from scheduler.verdict import FilterVerdict

PLAN: Final = "/v1"
ADVISE: Final = "/advise/v1"


class Webhooks:
    """The endpoints over a decider: a wire type in, a wire type out. NoAnswer and MalformedRequest are trouble."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider

    def filter(self, args: ExtenderArgs) -> ExtenderFilterResult:
        """Which of the offered nodes the pod may go to: the planned one, or all for pods of another scheduler."""
        self._check_ready()
        offered = wire_read.offered_names(args)
        pod = self._pod(args["Pod"])
        if not offered or not self._decider.is_ours(pod):
            return wire.filter_result(args, offered, {})
        return _answer(args, self._decider.filter(pod, offered, wire_read.nominated_node(args["Pod"])))

    def prioritize(self, args: ExtenderArgs) -> list[HostPriority]:
        """Scores of the offered nodes; none for pods of another scheduler."""
        self._check_ready()
        offered = wire_read.offered_names(args)
        pod = self._pod(args["Pod"])
        if not offered or not self._decider.is_ours(pod):
            return wire.priorities(())
        return wire.priorities(self._decider.prioritize(pod, offered))

    def preempt(self, args: ExtenderPreemptionArgs) -> ExtenderPreemptionResult:
        """Which candidate nodes stay, with which victims; all of them for pods of another scheduler."""
        self._check_ready()
        victims, violations = wire_read.victims_of(args)
        pod = self._pod(args["Pod"])
        if not self._decider.is_ours(pod):
            return wire.preemption_result(victims, violations)
        return wire.preemption_result(self._decider.preempt(pod, victims), violations)

    async def bind(self, args: ExtenderBindingArgs) -> ExtenderBindingResult:
        """Binds the pod, with its devices in the same write. Waits until that is done."""
        self._check_ready()
        return wire.binding_result(
            await self._decider.bind(args["PodNamespace"], args["PodName"], args["PodUID"], args["Node"])
        )

    def advise_filter(self, args: ExtenderArgs) -> ExtenderFilterResult:
        """The offered nodes without those that cannot hold the pod. Books nothing."""
        self._check_ready()
        offered = wire_read.offered_names(args)
        if not offered:
            return wire.filter_result(args, offered, {})
        return _answer(args, self._decider.advise_filter(decode_pod(args["Pod"]), offered))

    def advise_prioritize(self, args: ExtenderArgs) -> list[HostPriority]:
        """Scores in the order in which the planner would take the nodes. Books nothing."""
        self._check_ready()
        offered = wire_read.offered_names(args)
        return wire.priorities(self._decider.advise_prioritize(decode_pod(args["Pod"]), offered))

    def _check_ready(self) -> None:
        why = self._decider.ready()
        if why is not None:
            raise NoAnswer(text.not_ready(why))

    def _pod(self, document: wire.Object) -> PodFacts:
        """The facts of the pod asked about. In plan mode the uid is what everything is booked under."""
        uid = wire_read.identity(document)[2]
        if not uid:
            raise MalformedRequest("the pod has no uid")
        return self._decider.known(uid) or decode_pod(document)


def _answer(args: ExtenderArgs, verdict: FilterVerdict) -> ExtenderFilterResult:
    if verdict.error:
        raise NoAnswer(verdict.error)
    if verdict.nodes:
        # kube-scheduler looks at reasons only when no node is left; without them the answer stays short
        return wire.filter_result(args, verdict.nodes, {})
    return wire.filter_result(args, (), {name: text.PHRASES[code] for name, code in verdict.refused.items()})


def add_webhooks(router: APIRouter, decider: Decider) -> None:
    """Adds the webhooks to a router whose route class is a WireRoute."""
    webhooks = Webhooks(decider)
    for endpoint in (webhooks.filter, webhooks.prioritize, webhooks.preempt, webhooks.bind):
        router.post(f"{PLAN}/{endpoint.__name__}", tags=["plan mode"])(endpoint)
    router.post(f"{ADVISE}/filter", tags=["advise mode"])(webhooks.advise_filter)
    router.post(f"{ADVISE}/prioritize", tags=["advise mode"])(webhooks.advise_prioritize)


def extender_router(decider: Decider, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> APIRouter:
    """The webhooks as a router, for an application that has other routes too."""
    router = APIRouter(route_class=wire_route(limit_bytes))
    add_webhooks(router, decider)
    return router


def extender_app(decider: Decider, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> WireApp:
    """The application of the extender listener, documented at `/docs` and `/openapi.json`.

    Request bodies above `limit_bytes` are trouble.
    """
    app = WireApp(
        title="Tangram extender",
        description="Webhooks for kube-scheduler (k8s.io/kube-scheduler/extender/v1). Every answer has status 200.",
        redoc_url=None,
        redirect_slashes=False,
    )
    app.router.route_class = wire_route(limit_bytes)
    add_webhooks(app.router, decider)
    app.shortcut()
    return app
