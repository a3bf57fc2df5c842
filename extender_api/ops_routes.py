"""The ops listener: the API for people and programs, metrics, health. Never asked by kube-scheduler."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse

from extender_api import __version__, metrics, queue_views, text, views
from extender_api.errors import MalformedRequest
from extender_api.mix_document import packing_document
from extender_api.plan_service import NoPlan, PlanService
from extender_api.service import Service, wall_clock_ms
from extender_api.wire_route import DEFAULT_LIMIT_BYTES, read_body

NO_CLUSTER: Final = "this Tangram runs with --offline: it has no cluster, only POST /api/v1/plan"
NODES_AT_ONCE: Final = 16
"""Between so many nodes of a long answer others get their turn."""


def ops_app(plans: PlanService, service: Service | None, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> FastAPI:
    """The ops application. `service` None (offline) leaves only planning and health."""
    app = FastAPI(title="Tangram ops", version=__version__, redoc_url=None)
    app.include_router(_health(service))
    app.include_router(_planning(plans, limit_bytes))
    app.include_router(_cluster(service))
    return app


def _health(service: Service | None) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/healthz", response_class=PlainTextResponse)
    async def healthz() -> str:
        """The process answers."""
        return "ok"

    @router.get("/readyz", response_class=PlainTextResponse)
    async def readyz() -> Response:
        """Kernels are compiled and caches are in sync. A standby is ready: it could act at once."""
        unready = None if service is None else service.unready()
        return PlainTextResponse(unready or "ok", status_code=503 if unready else 200)

    @router.get("/metrics", response_class=PlainTextResponse)
    async def prometheus() -> Response:
        """Metrics in Prometheus' text form."""
        body, content_type = metrics.exposition()
        return Response(body, headers={"Content-Type": content_type})

    return router


def _planning(plans: PlanService, limit_bytes: int) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["planning"])

    @router.post("/plan")
    async def plan(request: Request) -> Response:
        """Plans the given objects; never touches live state. Bad input is 400 with `warnings`."""
        try:
            body = await read_body(request.receive, limit_bytes)
            status, content = await plans.answer(body or b"")
        except MalformedRequest as err:
            return JSONResponse({"warnings": [f"the document has {err}"]}, status_code=400)
        except NoPlan as err:
            return JSONResponse({"warnings": [str(err)]}, status_code=err.status)
        return Response(content, status_code=status, media_type="application/json")

    return router


def _cluster(service: Service | None) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["cluster"])

    def live() -> Service:
        if service is None:
            raise HTTPException(409, NO_CLUSTER)
        return service

    @router.get("/status")
    async def status() -> dict[str, Any]:
        """The whole in numbers."""
        known = live()
        return views.status(known.engine, __version__, known.active, known.unready())

    @router.get("/packing")
    async def packing() -> dict[str, Any]:
        """What the placement policy goes by: its demand mix and hardware, and how often its tables were made."""
        return packing_document(live().engine.packing)

    @router.get("/nodes")
    async def nodes() -> Response:
        """Nodes with their devices and who holds what, by name. Those of a standby (`active` false) lack its plans."""
        return StreamingResponse(_node_list(live()), media_type="application/json")

    @router.get("/queues")
    async def queues() -> dict[str, Any]:
        """All queues in numbers, parents before children."""
        known = live()
        return {**queue_views.queues(known.engine), "active": known.active}

    @router.get("/workloads/{namespace}/{name}")
    async def workload(namespace: str, name: str) -> Response:
        """One pod: where it is on its way, where it goes, or why it waits."""
        known = live()
        unready = known.unready()
        if unready is not None:  # what is known is not the whole, and looking for a reason would compile the kernels
            raise HTTPException(503, text.not_ready(unready))
        found = views.workload(known.engine, namespace, name, wall_clock_ms())
        if found is None:
            raise HTTPException(404, f"no pod {namespace}/{name} of ours is known")
        return JSONResponse({**found, "active": known.active})

    return router


async def _node_list(service: Service) -> AsyncIterator[bytes]:
    """A JSON list, piece by piece: in a large cluster it would hold up the webhooks."""
    engine, before = service.engine, "["
    names = sorted(engine.cluster.state.slot_of)
    for start in range(0, len(names), NODES_AT_ONCE):
        found = [views.node(engine, name) for name in names[start : start + NODES_AT_ONCE]]
        piece = ",".join(
            json.dumps({**document, "active": service.active}) for document in found if document is not None
        )
        if piece:
            yield f"{before}{piece}".encode()
            before = ","
        await asyncio.sleep(0)
    yield b"[]" if before == "[" else b"]"
