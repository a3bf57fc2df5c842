"""Routes that speak bytes: kube-scheduler's JSON in, ours out, and always HTTP 200.

FastAPI's own decoding and encoding cost milliseconds at thousands of names. The signatures of the endpoints still feed
OpenAPI. kube-scheduler throws away the body of every other status and the connection with it, so trouble of any kind is
a well-formed answer of the verb: `Error` (filter, bind), `[]` (prioritize), an empty mapping (preempt).
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from extender_api import metrics, text, wire, wire_read
from extender_api.cluster.fields import DecodeError
from extender_api.errors import MalformedRequest, NoAnswer

log = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/json"
DEFAULT_LIMIT_BYTES: Final = 128 << 20

Answerer = Callable[[Receive], Awaitable[bytes | None]]
"""Reads a request and returns the body of the answer; None when the caller has gone."""


@dataclass(frozen=True, slots=True)
class Question:
    """How a kind of question is read, and which pod it is about (namespace, name, uid) for the log."""

    read: Callable[[bytes], Any]
    about: Callable[[Any], tuple[str, str, str]]


QUESTIONS: Final[Mapping[Any, Question]] = {
    wire.ExtenderArgs: Question(wire_read.read_args, lambda args: wire_read.identity(args["Pod"])),
    wire.ExtenderPreemptionArgs: Question(wire_read.read_preemption, lambda args: wire_read.identity(args["Pod"])),
    wire.ExtenderBindingArgs: Question(
        wire_read.read_binding, lambda args: (args["PodNamespace"], args["PodName"], args["PodUID"])
    ),
}

TROUBLE: Final[Mapping[Any, Callable[[str], object]]] = {
    wire.ExtenderFilterResult: wire.filter_error,
    list[wire.HostPriority]: lambda error: wire.priorities(()),
    wire.ExtenderPreemptionResult: lambda error: wire.preemption_result({}, {}),
    wire.ExtenderBindingResult: wire.binding_result,
}
"""What each kind of answer is when there is none."""


class WireRoute(APIRoute):
    """A route whose endpoint takes one wire type and returns another; the name of the endpoint is the verb."""

    limit_bytes: ClassVar[int] = DEFAULT_LIMIT_BYTES

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = self.answerer()

        async def handle(request: Request) -> Response:
            content = await answer(request.receive)
            return Response() if content is None else Response(content, media_type=MEDIA_TYPE)

        return handle

    def answerer(self) -> Answerer:
        """What turns a request body into the body of the answer, come what may."""
        endpoint, verb, limit = self.endpoint, self.name, self.limit_bytes
        signature = inspect.signature(endpoint, eval_str=True)
        (parameter,) = signature.parameters.values()
        question = QUESTIONS[parameter.annotation]
        trouble = TROUBLE[signature.return_annotation]
        awaits = inspect.iscoroutinefunction(endpoint)  # bind waits; the others run on the loop and must not

        async def answer(receive: Receive) -> bytes | None:
            started = time.perf_counter()
            args = None
            try:
                body = await read_body(receive, limit)
                if body is None:
                    return None
                args = question.read(body)
                result = endpoint(args)
                content = wire.encode(await result if awaits else result)
            except Exception as err:
                metrics.count_error(verb)
                who = ("", "", "") if args is None else question.about(args)
                content = wire.encode(trouble(_told(err, verb, who)))
            metrics.observe_request(verb, time.perf_counter() - started)
            return content

        return answer


def wire_route(limit_bytes: int) -> type[WireRoute]:
    """The route class with another limit on bodies, for `APIRouter(route_class=…)`."""
    return type("WireRoute", (WireRoute,), {"limit_bytes": limit_bytes})


class WireApp(FastAPI):
    """FastAPI that answers its wire routes itself: the layers between would cost as much as the answer."""

    _answerers: Mapping[str, Answerer] = {}

    def shortcut(self) -> None:
        """To be called once all wire routes are there."""
        routes = [route for route in self.routes if isinstance(route, WireRoute)]
        self._answerers = {route.path: route.answerer() for route in routes}

    def openapi(self) -> dict[str, Any]:
        """The documentation, without the 422 that wire routes never answer."""
        if self.openapi_schema is None:
            document = super().openapi()
            for operations in document["paths"].values():
                for operation in operations.values():
                    operation["responses"].pop("422", None)
            for name in ("HTTPValidationError", "ValidationError"):
                document["components"]["schemas"].pop(name, None)
        return super().openapi()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            answer = self._answerers.get(scope["path"])
            if answer is not None:
                await _send(send, await answer(receive))
                return
        await super().__call__(scope, receive, send)


async def _send(send: Send, content: bytes | None) -> None:
    if content is None:
        return
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", b"%d" % len(content))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def read_body(receive: Receive, limit_bytes: int) -> bytes | None:
    """The body of a request, None when the caller has gone.

    A body that is too large is read to its end and dropped, so that the sender gets an answer: MalformedRequest.
    """
    chunks: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunk = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(chunk)
        if size > limit_bytes:
            chunks.clear()
        else:
            chunks.append(chunk)
    if size > limit_bytes:
        raise MalformedRequest(f"more than {limit_bytes >> 20} MiB")
    return b"".join(chunks)


def _told(err: Exception, verb: str, who: tuple[str, str, str]) -> str:
    """Logs trouble with the pod it is about. Returns what kube-scheduler is told."""
    namespace, name, uid = who
    extra = {"verb": verb, "namespace": namespace, "pod": name, "uid": uid}
    match err:
        case NoAnswer():
            log.info("%s not answered: %s", verb, err, extra=extra)
            return str(err)
        case MalformedRequest() | DecodeError():
            log.warning("%s cannot be read: %s", verb, err, extra=extra)
            return f"{text.UNREADABLE}: {err}"
        case _:
            log.error("%s failed", verb, exc_info=err, extra=extra)
            return text.INTERNAL
