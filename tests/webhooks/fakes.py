"""A small decider with fixed opinions, and a way to call an application without a socket or a running loop."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from starlette.types import ASGIApp, Message

from scheduler.pod import PodFacts
from scheduler.reason import Code
from scheduler.verdict import FilterVerdict

GOLDEN: Final = Path(__file__).parent / "golden"
OURS_UID: Final = "0b0f8a5e-1111-4222-8333-444455556666"
PATHS: Final = (
    "/v1/filter",
    "/v1/prioritize",
    "/v1/preempt",
    "/v1/bind",
    "/advise/v1/filter",
    "/advise/v1/prioritize",
)

Result = TypeVar("Result")


@dataclass
class FakeDecider:
    """Plans every pod on `planned`; what it was asked stands in `asked`."""

    planned: str = "n2"
    why_not_ready: str | None = None
    verdict: FilterVerdict | None = None
    scores: Sequence[tuple[str, int]] = (("n1", 7), ("n2", 3))
    victims: Mapping[str, Sequence[str]] | None = None
    bind_error: str = ""
    failure: Exception | None = None
    pods: dict[str, PodFacts] = field(default_factory=dict)
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def ready(self) -> str | None:
        return self.why_not_ready

    def known(self, uid: str) -> PodFacts | None:
        return self.pods.get(uid)

    def is_ours(self, pod: PodFacts) -> bool:
        return pod.scheduler_name == "tangram"

    def filter(self, pod: PodFacts, offered: Sequence[str], nominated: str | None) -> FilterVerdict:
        self._ask("filter", pod, offered)
        if self.verdict is not None:
            return self.verdict
        if self.planned in offered:
            return FilterVerdict(nodes=[self.planned])
        return FilterVerdict(refused=dict.fromkeys(offered, Code.PLANNED_ELSEWHERE))

    def prioritize(self, pod: PodFacts, offered: Sequence[str]) -> Sequence[tuple[str, int]]:
        self._ask("prioritize", pod, offered)
        return self.scores

    def preempt(self, pod: PodFacts, victims: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
        self._ask("preempt", pod, victims)
        return victims if self.victims is None else self.victims

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> str:
        self._ask("bind", namespace, name, uid, node)
        return self.bind_error

    def advise_filter(self, pod: PodFacts, offered: Sequence[str]) -> FilterVerdict:
        self._ask("advise_filter", pod, offered)
        return FilterVerdict(nodes=offered) if self.verdict is None else self.verdict

    def advise_prioritize(self, pod: PodFacts, offered: Sequence[str]) -> Sequence[tuple[str, int]]:
        self._ask("advise_prioritize", pod, offered)
        return self.scores

    def _ask(self, *question: Any) -> None:
        self.asked.append(question)
        if self.failure is not None:
            raise self.failure


def golden(name: str) -> bytes:
    """The bytes of a golden file."""
    return (GOLDEN / f"{name}.json").read_bytes()


def drive(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Runs a coroutine that never waits for anything."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: Result = done.value
        return value
    raise AssertionError("it waits")


async def exchange(
    app: ASGIApp, path: str, body: bytes, *, method: str = "POST", chunk: int = 1 << 16
) -> tuple[int, Mapping[str, str], bytes]:
    """One request, its body in chunks: status, headers and body of the answer."""
    parts = [body[at : at + chunk] for at in range(0, len(body), chunk)] or [b""]
    incoming = [
        {"type": "http.request", "body": part, "more_body": at < len(parts) - 1} for at, part in enumerate(parts)
    ]
    outgoing: list[Message] = []

    async def receive() -> Message:
        return incoming.pop(0) if incoming else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        outgoing.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }
    await app(scope, receive, send)
    start, *rest = outgoing
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], headers, b"".join(message.get("body", b"") for message in rest)


def ask(app: ASGIApp, path: str, body: bytes | Mapping[str, Any]) -> Any:
    """Asks a webhook and returns the parsed answer, which must come with status 200 and its length."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, headers, answer = drive(exchange(app, path, raw))
    assert status == 200
    assert headers["content-type"] == "application/json"
    assert int(headers["content-length"]) == len(answer)
    return json.loads(answer)
