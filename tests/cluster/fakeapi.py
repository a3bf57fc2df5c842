"""A small API server for the tests of this folder: lists, watches, patches and bindings, and every kind of fault.

It speaks HTTP on a loopback port and keeps objects as plain dictionaries. Only what the client and its users rely on is
modelled; the real one is met elsewhere.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Object = dict[str, Any]
Fault = Callable[[web.Request], Awaitable[web.StreamResponse]]


def status_body(code: int, message: str, reason: str = "") -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "message": message,
        "reason": reason,
    }


def answer(code: int, message: str = "", headers: dict[str, str] | None = None) -> Fault:
    """A fault: this status instead of the real answer."""

    async def fault(_: web.Request) -> web.StreamResponse:
        return web.json_response(status_body(code, message), status=code, headers=headers)

    return fault


async def hang(_: web.Request) -> web.StreamResponse:
    """A fault: the request is taken and never answered."""
    await asyncio.sleep(3600)
    raise AssertionError("nobody waits that long")


async def drop(request: web.Request) -> web.StreamResponse:
    """A fault: the connection is closed without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def stream(*lines: bytes, then: str = "end") -> Fault:
    """A fault for watches: these lines, then `end` the stream properly, `cut` the connection, or stay `silent`."""

    async def fault(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(line + b"\n")
        if then == "silent":
            await asyncio.sleep(3600)
        if then == "cut":
            assert request.transport is not None
            request.transport.abort()
        return response

    return fault


@dataclass
class Collection:
    objects: dict[str, Object] = field(default_factory=dict)
    log: list[tuple[int, str, Object]] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)


@dataclass
class Call:
    method: str
    path: str
    query: dict[str, str]
    body: Any
    content_type: str
    headers: dict[str, str]


class FakeApi:
    """Collections by the last part of their path: pods, nodes, namespaces, leases, events, queues; "kai queues".

    Kinds that were given to `serve` have collections such as "jobs.batch", and can be discovered.

    Kinds in `absent` are not defined here: there is nothing at their paths.
    """

    def __init__(self) -> None:
        self.version = 100
        self.oldest = 0
        self.calls: list[Call] = []
        self.collections: dict[str, Collection] = {}
        self.absent: set[str] = set()
        self.served: set[tuple[str, str, str]] = set()
        self.faults: list[tuple[str, str, Fault]] = []
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        assert site._server is not None
        host, port = site._server.sockets[0].getsockname()[:2]  # type: ignore[attr-defined]
        self.url = f"http://{host}:{port}"

    async def stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    # -- what tests do -----------------------------------------------------------------------------------------

    def collection(self, name: str) -> Collection:
        return self.collections.setdefault(name, Collection())

    def serve(self, group: str, version: str, plural: str) -> str:
        """Defines a kind; the name of its collection."""
        self.served.add((group, version, plural))
        return f"{plural}.{group}"

    async def put(self, name: str, item: Object) -> Object:
        """Creates or replaces an object and tells the watchers."""
        collection = self.collection(name)
        self.version += 1
        stored = copy.deepcopy(item)
        stored["metadata"]["resourceVersion"] = str(self.version)
        key = _key(stored)
        kind = "MODIFIED" if key in collection.objects else "ADDED"
        collection.objects[key] = stored
        await self._tell(collection, kind, stored)
        return stored

    async def remove(self, name: str, key: str) -> None:
        collection = self.collection(name)
        self.version += 1
        gone = collection.objects.pop(key)
        gone["metadata"]["resourceVersion"] = str(self.version)
        await self._tell(collection, "DELETED", gone)

    async def undefine(self, name: str) -> None:
        """Removes a kind, as when its definition is deleted: all objects go, then watches end."""
        for key in list(self.collection(name).objects):
            await self.remove(name, key)
        self.absent.add(name)
        async with self.collection(name).changed:
            self.collection(name).changed.notify_all()

    async def bookmark(self, name: str) -> None:
        self.version += 1
        await self._tell(
            self.collection(name), "BOOKMARK", {"kind": "X", "metadata": {"resourceVersion": str(self.version)}}
        )

    def forget_history(self) -> None:
        """Compaction: watches from before now get 410."""
        self.oldest = self.version

    def fail(self, method: str, path: str, fault: Fault, times: int = 1) -> None:
        """The next `times` requests of a method whose path ends so meet a fault. A watch has the method WATCH."""
        self.faults += [(method, path, fault)] * times

    def count(self, method: str, path: str) -> int:
        return sum(call.method == method and call.path.endswith(path) for call in self.calls)

    # -- serving -----------------------------------------------------------------------------------------------

    async def _tell(self, collection: Collection, kind: str, item: Object) -> None:
        collection.log.append((self.version, kind, copy.deepcopy(item)))
        async with collection.changed:
            collection.changed.notify_all()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        method = "WATCH" if request.query.get("watch") else request.method
        body = json.loads(raw) if raw else None
        self.calls.append(
            Call(method, request.path, dict(request.query), body, request.content_type, dict(request.headers))
        )
        for index, (wanted, path, fault) in enumerate(self.faults):
            if wanted == method and request.path.endswith(path):
                del self.faults[index]
                return await fault(request)
        parts = request.path.strip("/").split("/")
        if method == "GET" and parts[0] == "apis" and len(parts) in (1, 3):
            return self._discovery(parts)
        if parts[0] == "apis" and tuple(parts[1:]) in self.served:
            return await self._served(request, method, f"{parts[-1]}.{parts[1]}")
        name = "kai queues" if "scheduling.run.ai" in parts else parts[-1]
        if name in self.absent:
            return web.json_response(status_body(404, "the server could not find the requested resource"), status=404)
        if method == "WATCH":
            return await self._watch(request, name)
        if method == "GET" and parts[-1] in ("pods", "nodes", "namespaces", "leases", "events", "queues"):
            return self._list(request, self.collection(name))
        if method == "PATCH" and parts[-3] == "queues":
            return await self._patch_status("queues", parts[-2], body)
        if method == "POST" and parts[-1] == "events":
            assert body is not None
            return web.json_response(await self.put("events", body), status=201)
        return await self._one(method, parts, body)

    def _discovery(self, parts: list[str]) -> web.Response:
        """The groups, or what is served of one version of a group."""
        there = sorted(kind for kind in self.served if f"{kind[2]}.{kind[0]}" not in self.absent)
        if len(parts) == 1:
            groups: dict[str, list[Object]] = {}
            for group, version in sorted({kind[:2] for kind in there}):
                groups.setdefault(group, []).append({"groupVersion": f"{group}/{version}", "version": version})
            return web.json_response({"groups": [{"name": name, "versions": found} for name, found in groups.items()]})
        plurals = [plural for *place, plural in there if place == parts[1:]]
        verbs = ["get", "list", "watch"]
        resources = [{"name": plural, "namespaced": True, "verbs": verbs} for plural in plurals]
        resources += [{"name": f"{plural}/status", "verbs": ["get", "patch"]} for plural in plurals]
        return web.json_response({"resources": resources}, status=200 if plurals else 404)

    async def _served(self, request: web.Request, method: str, name: str) -> web.StreamResponse:
        if name in self.absent:
            return web.json_response(status_body(404, "the server could not find the requested resource"), status=404)
        if method == "WATCH":
            return await self._watch(request, name)
        return self._list(request, self.collection(name))

    def _list(self, request: web.Request, collection: Collection) -> web.Response:
        items = [item for _, item in sorted(collection.objects.items()) if _selected(request, item)]
        start = int(request.query.get("continue") or 0)
        limit = int(request.query.get("limit") or len(items) or 1)
        meta = {"resourceVersion": str(self.version)}
        if start + limit < len(items):
            meta["continue"] = str(start + limit)
        return web.json_response({"kind": "List", "metadata": meta, "items": items[start : start + limit]})

    async def _watch(self, request: web.Request, name: str) -> web.StreamResponse:
        collection = self.collection(name)
        since = int(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        if since < self.oldest:
            gone = {"type": "ERROR", "object": status_body(410, "too old resource version", "Expired")}
            await response.write(json.dumps(gone, separators=(",", ":")).encode() + b"\n")
            return response
        while True:
            async with collection.changed:
                while not (news := [entry for entry in collection.log if entry[0] > since]):
                    if name in self.absent:
                        return response
                    await collection.changed.wait()
            for version, kind, item in news:
                since = version
                if kind == "BOOKMARK" or _selected(request, item):
                    event = {"type": kind, "object": item}
                    await response.write(json.dumps(event, separators=(",", ":")).encode() + b"\n")

    async def _one(self, method: str, parts: list[str], body: Any) -> web.Response:
        # /api/v1/namespaces/NS/pods/NAME[/SUBRESOURCE]
        place = parts.index("pods") if "pods" in parts else -1
        if place < 0 or len(parts) < place + 2:
            return web.json_response(status_body(404, "not found"), status=404)
        subresource = parts[place + 2] if len(parts) > place + 2 else ""
        pod = self.collection("pods").objects.get(f"{parts[place - 1]}/{parts[place + 1]}")
        if pod is None:
            return web.json_response(status_body(404, f'pods "{parts[place + 1]}" not found'), status=404)
        if method == "GET":
            return web.json_response(pod)
        if method == "POST" and subresource == "binding":
            return await self._bind(pod, body)
        assert method == "PATCH"
        try:
            patched = json_patch(pod, body) if isinstance(body, list) else merge_patch(pod, body)
        except PatchRefused as err:
            return web.json_response(status_body(422, str(err)), status=422)
        if patched["metadata"].get("uid") != pod["metadata"].get("uid"):
            return web.json_response(status_body(409, "Precondition failed: UID"), status=409)
        return web.json_response(await self.put("pods", patched))

    async def _patch_status(self, collection: str, name: str, body: Any) -> web.Response:
        found = self.collection(collection).objects.get(name)
        if found is None:
            return web.json_response(status_body(404, f'"{name}" not found'), status=404)
        patched = merge_patch(found, {"status": body["status"]})
        return web.json_response(await self.put(collection, patched))

    async def _bind(self, pod: Object, body: Object) -> web.Response:
        if body["metadata"]["uid"] != pod["metadata"]["uid"]:
            return web.json_response(status_body(409, "Precondition failed: UID"), status=409)
        if pod["spec"].get("nodeName"):
            text = f"pod {pod['metadata']['name']} is already assigned to node {pod['spec']['nodeName']}"
            return web.json_response(status_body(409, text), status=409)
        if pod["metadata"].get("deletionTimestamp"):
            return web.json_response(status_body(409, "pod is being deleted"), status=409)
        if pod["spec"].get("schedulingGates"):
            return web.json_response(status_body(409, "pod has scheduling gates"), status=409)
        bound = copy.deepcopy(pod)
        bound["spec"]["nodeName"] = body["target"]["name"]
        bound["metadata"].setdefault("annotations", {}).update(body["metadata"].get("annotations") or {})
        await self.put("pods", bound)
        return web.json_response({"kind": "Status", "status": "Success", "code": 201}, status=201)


class PatchRefused(Exception):
    pass


def json_patch(item: Object, operations: list[Object]) -> Object:
    """RFC 6902, as far as test, remove and adding members go."""
    result = copy.deepcopy(item)
    for operation in operations:
        *way, last = operation["path"].strip("/").split("/")
        try:
            target: Any = result
            for part in way:
                target = target[int(part)] if isinstance(target, list) else target[part]
            at: Any = int(last) if isinstance(target, list) else last
            if operation["op"] == "test":
                if target[at] != operation["value"]:
                    raise PatchRefused(f"testing {operation['path']}: not {operation['value']}")
            elif operation["op"] == "remove":
                del target[at]
            else:
                assert operation["op"] == "add", operation
                assert isinstance(target, dict), operation
                target[at] = operation["value"]
        except (KeyError, IndexError) as err:
            raise PatchRefused(f"{operation['path']} is missing: {err}") from None
    return result


def merge_patch(item: Object, patch: Object) -> Object:
    """RFC 7386."""
    result = copy.deepcopy(item)
    for key, value in patch.items():
        if isinstance(value, dict):
            before = result.get(key)
            result[key] = merge_patch(before if isinstance(before, dict) else {}, value)
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = value
    return result


def _key(item: Object) -> str:
    meta = item["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else str(meta["name"])


def _selected(request: web.Request, item: Object) -> bool:
    for term in filter(None, request.query.get("fieldSelector", "").split(",")):
        if "!=" in term:
            path, value = term.split("!=")
            if _field(item, path) == value:
                return False
        else:
            path, value = term.split("=", 1)
            if _field(item, path) != value:
                return False
    return True


def _field(item: Object, path: str) -> str:
    value: Any = item
    for part in path.split("."):
        value = (value or {}).get(part)
    return str(value or "")
