"""A small client of the Kubernetes API for tests: raw JSON over aiohttp."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final

import aiohttp
from pydantic_core import from_json, to_json

from tests.controlplane.resources import Object, Objects, Resource

_PAGE: Final = 500
_JSON: Final = "application/json"
_CONNECTIONS: Final = 32
_GONE: Final = 410
_TROUBLE: Final = 429
"""From this status on the API server has trouble of its own."""
_PAUSE_S: Final = 0.2
_FAREWELL_S: Final = 0.05
"""Time for connections to take leave; those to a killed server are not waited for by aiohttp."""
_WATCH_SECONDS: Final = 300


class ApiError(RuntimeError):
    """An answer other than success: HTTP `status`, Kubernetes' `reason` and `message`."""

    def __init__(self, status: int, body: bytes) -> None:
        try:
            answer = from_json(body)
            self.reason, self.message = str(answer.get("reason", "")), str(answer.get("message", ""))
        except (ValueError, AttributeError):
            self.reason, self.message = "", body.decode(errors="replace")
        self.status = status
        super().__init__(f"{status} {self.reason}: {self.message}")


class AsyncKube:
    """Calls one API server with one token. Belongs to the loop that calls `open`."""

    def __init__(self, server: str, token: str, authority_pem: str) -> None:
        self._server = server
        self._headers = {"Authorization": f"Bearer {token}", "Accept": _JSON}
        self._tls = ssl.create_default_context(cadata=authority_pem)
        self._session: aiohttp.ClientSession | None = None
        self._discovered: dict[tuple[str, str], Resource] = {}

    async def open(self) -> None:
        self._session = aiohttp.ClientSession(
            base_url=self._server,
            headers=self._headers,
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=0, keepalive_timeout=60),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            await asyncio.sleep(_FAREWELL_S)

    # -- requests ----------------------------------------------------------------------------------------------
    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        content_type: str = _JSON,
        timeout_s: float = 60.0,
    ) -> Any:
        """One call; the decoded answer, or its text where it is not JSON. Raises ApiError."""
        assert self._session is not None, "not open"
        async with self._session.request(
            method,
            path,
            data=None if body is None else to_json(body),
            params=params,
            headers={"Content-Type": content_type},
            timeout=aiohttp.ClientTimeout(total=timeout_s),
        ) as response:
            answer = await response.read()
            if response.status >= 300:
                raise ApiError(response.status, answer)
            return from_json(answer) if response.content_type == _JSON else answer.decode()

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        return _object(await self.request("GET", resource.path(namespace, name)))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Objects:
        """All objects that match, read page by page."""
        return (await self._list(resource, namespace, _selectors(label_selector, field_selector)))[0]

    async def create(self, document: Object, namespace: str | None = None) -> Object:
        """Creates the object; into `namespace` where it is given, else into the object's own or `default`."""
        resource = await self.resource_of(document)
        return _object(await self.request("POST", resource.path(namespace or _namespace_of(document)), document))

    async def create_all(self, documents: Iterable[Object], concurrency: int = _CONNECTIONS) -> Objects:
        """Creates many objects, `concurrency` at a time; the answers in the order of the input."""
        limit = asyncio.Semaphore(concurrency)

        async def create(document: Object) -> Object:
            async with limit:
                return await self.create(document)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(create(document)) for document in documents]
        return [task.result() for task in tasks]

    async def apply(self, document: Object) -> Object:
        """Server-side apply: creates the object or brings it to what the document says."""
        resource = await self.resource_of(document)
        path = resource.path(_namespace_of(document), document["metadata"]["name"])
        manager = {"fieldManager": "tests", "force": "true"}
        return _object(await self.request("PATCH", path, document, manager, "application/apply-patch+yaml"))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> Object:
        """A mapping is a merge patch, a sequence a JSON patch."""
        kind = "merge-patch" if isinstance(patch, Mapping) else "json-patch"
        path = resource.path(namespace, name, subresource)
        return _object(await self.request("PATCH", path, patch, content_type=f"application/{kind}+json"))

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        grace_s: int | None = None,
        uid: str | None = None,
    ) -> None:
        """Deletes; with `uid` only the object that has it."""
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        await self.request("DELETE", resource.path(namespace, name), options)

    async def delete_all(self, resource: Resource, namespace: str | None = None, label_selector: str = "") -> None:
        """Deletes a collection at once; of a namespaced resource in one namespace."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        await self.request("DELETE", resource.path(namespace), options, _selectors(label_selector, ""))

    async def bind(self, pod: Object, node: str, annotations: Mapping[str, str] | None = None) -> None:
        """Binds the pod as a scheduler does."""
        metadata = pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "uid": metadata["uid"], "annotations": dict(annotations or {})},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/binding"
        await self.request("POST", path, binding)

    async def resource_of(self, document: Object) -> Resource:
        """Where objects of this kind are kept, as the API server says it. LookupError for an unknown kind."""
        key = (document["apiVersion"], document["kind"])
        if key not in self._discovered:
            prefix = "/apis/" if "/" in key[0] else "/api/"
            for entry in (await self.request("GET", prefix + key[0]))["resources"]:
                if "/" not in entry["name"]:
                    self._discovered[key[0], entry["kind"]] = Resource(key[0], entry["name"], entry["namespaced"])
        if key not in self._discovered:
            raise LookupError(f"the API server knows no {key[1]} in {key[0]}")
        return self._discovered[key]

    # -- watching ----------------------------------------------------------------------------------------------
    async def follow(
        self, resource: Resource, field_selector: str = "", label_selector: str = ""
    ) -> AsyncIterator[tuple[str, Object]]:
        """Events of all objects that match, without end: (ADDED, MODIFIED or DELETED, object).

        Starts with ADDED for what is there; after a broken watch nothing is lost, but ADDED may come again.
        """
        selectors = _selectors(label_selector, field_selector)
        known: dict[str, Object] = {}
        version = ""
        while True:
            try:
                if not version:
                    items, version = await self._list(resource, None, selectors)
                    present = {item["metadata"]["uid"] for item in items}
                    gone = [item for uid, item in known.items() if uid not in present]
                    for kind, batch in (("DELETED", gone), ("ADDED", items)):
                        for item in batch:
                            _remember(known, kind, item)
                            yield kind, item
                async for kind, item in self._watch(resource, selectors, version):
                    version = item["metadata"]["resourceVersion"]
                    if kind != "BOOKMARK":
                        _remember(known, kind, item)
                        yield kind, item
            except ApiError as err:
                if err.status == _GONE:
                    version = ""
                elif err.status >= _TROUBLE:
                    await asyncio.sleep(_PAUSE_S)
                else:
                    raise
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(_PAUSE_S)

    async def _watch(
        self, resource: Resource, selectors: Mapping[str, str], version: str
    ) -> AsyncIterator[tuple[str, Object]]:
        """Events of one watch request, bookmarks included."""
        assert self._session is not None, "not open"
        params = {
            **selectors,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        async with self._session.get(resource.path(), params=params) as response:
            if response.status >= 300:
                raise ApiError(response.status, await response.read())
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = from_json(line)
                    if event["type"] == "ERROR":
                        raise ApiError(int(event["object"].get("code", 500)), to_json(event["object"]))
                    yield event["type"], event["object"]

    async def _list(
        self, resource: Resource, namespace: str | None, selectors: Mapping[str, str]
    ) -> tuple[Objects, str]:
        """All objects and the resource version at which they were read."""
        items: Objects = []
        params = {**selectors, "limit": str(_PAGE)}
        while True:
            page = await self.request("GET", resource.path(namespace), params=params)
            items += page["items"]
            if not page["metadata"].get("continue"):
                return items, page["metadata"]["resourceVersion"]
            params["continue"] = page["metadata"]["continue"]


def _remember(known: dict[str, Object], kind: str, item: Object) -> None:
    """Keeps what a later relist needs to notice deletions."""
    if kind == "DELETED":
        known.pop(item["metadata"]["uid"], None)
    else:
        known[item["metadata"]["uid"]] = item


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    given = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in given.items() if value}


def _namespace_of(document: Object) -> str:
    return str(document["metadata"].get("namespace", "default"))


def _object(answer: Any) -> Object:
    if not isinstance(answer, dict):
        raise TypeError(f"the API server answered {answer!r}, not an object")
    return answer
