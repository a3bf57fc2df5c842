"""The ops listener: the API for people and programs, metrics, health. Never asked by kube-scheduler."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from extender_api import __version__, metrics, plan_document, views
from extender_api.service import Service, wall_clock_ms
from extender_api.settings import Settings
from topology.inventory import InventorySettings

NO_CLUSTER = "this Tangram runs with --offline: it has no cluster, only POST /api/v1/plan"


def ops_app(settings: Settings, inventory: InventorySettings, service: Service | None) -> FastAPI:
    """The ops application. `service` None (offline) leaves only planning and health."""
    app = FastAPI(title="Tangram ops", version=__version__)
    app.include_router(_health(service))
    app.include_router(_planning(settings, inventory))
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


def _planning(settings: Settings, inventory: InventorySettings) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["planning"])

    @router.post("/plan")
    async def plan(request: Request) -> Response:
        """Plans the given objects; never touches live state. Bad input is 400 with `warnings`."""
        try:
            document: Any = json.loads(await request.body())
            answer = plan_document.answer(document, inventory=inventory, scheduler_name=settings.scheduler_name)
        except ValueError as err:
            warnings = err.warnings if isinstance(err, plan_document.BadPlanInput) else [f"not JSON: {err}"]
            return JSONResponse({"warnings": warnings}, status_code=400)
        return JSONResponse(answer)

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

    @router.get("/nodes")
    async def nodes() -> list[dict[str, Any]]:
        """Nodes with their devices and who holds what."""
        return views.nodes(live().engine)

    @router.get("/workloads/{namespace}/{name}")
    async def workload(namespace: str, name: str) -> dict[str, Any]:
        """One pod: where it is on its way, where it goes, or why it waits."""
        found = views.workload(live().engine, namespace, name, wall_clock_ms())
        if found is None:
            raise HTTPException(404, f"no pod {namespace}/{name} of ours is known")
        return {**found, "active": live().active}

    return router
