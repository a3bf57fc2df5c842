"""Latency of the webhooks, beside a bare ASGI echo with the same server settings in the same run.

Both servers are processes of their own. Calls alternate between them, so that a busy moment of the machine
hits all; ratios are therefore steadier than times. Run: `python -m benchmarks.webhooks`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import uvloop

from benchmarks import report
from benchmarks.go_client import CallError, args_body, at_once, bind_body, node_names, timed
from benchmarks.measure import Times, cpu_seconds, times
from benchmarks.pods import NAMESPACE, pod
from benchmarks.process import Server, server, transport_to
from extender_api.demo.transport import Answer, Transport

SIZES: Final = (100, 1000, 5000)
WARM_UP: Final = 30
BLOCK: Final = 10
SETTLE_S: Final = 0.005
BURST: Final = 100
COLUMNS: Final = (
    "call",
    "nodes",
    "min µs",
    "p50 µs",
    "p99 µs",
    "CPU µs",
    "echo p50",
    "p50 / echo",
    "short p50",
    "p50 / short",
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One call of one server: latency, and CPU microseconds of the server per call where the system tells."""

    times: Times
    cpu_us: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of call at one number of offered nodes. `short` is the echo server with a short answer."""

    call: str
    nodes: int
    tangram: Measured
    echo: Measured
    short: Measured

    @property
    def ratio(self) -> float:
        """Tangram's p50 over the echo's."""
        return self.tangram.times.p50_us / self.echo.times.p50_us

    @property
    def ratio_short(self) -> float:
        """Tangram's p50 over that of the echo server with a short answer."""
        return self.tangram.times.p50_us / self.short.times.p50_us

    def cells(self) -> list[object]:
        """For the table."""
        own, echo, short = self.tangram, self.echo, self.short
        return [
            self.call,
            self.nodes,
            own.times.min_us,
            own.times.p50_us,
            own.times.p99_us,
            own.cpu_us,
            echo.times.p50_us,
            self.ratio,
            short.times.p50_us,
            self.ratio_short,
        ]

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"ratio": self.ratio, "ratio_short": self.ratio_short}


@dataclass(frozen=True, slots=True)
class Call:
    """What is measured: bodies for `path` in turn.

    `check` raises CallError when an answer is not the expected one.
    """

    name: str
    path: str
    bodies: Sequence[bytes]
    check: Callable[[Answer], None]


@dataclass(frozen=True, slots=True)
class Bench:
    """The two servers and clients of both."""

    tangram: Server
    echo: Server
    to_tangram: Transport
    to_echo: Transport


async def measure(bench: Bench, call: Call, nodes: int, count: int) -> Row:
    """`count` calls of each kind, in blocks that alternate and change their order."""
    targets = (
        _Target(bench.to_tangram, call.path, bench.tangram.pid),
        _Target(bench.to_echo, "/echo", bench.echo.pid),
        _Target(bench.to_echo, "/short", bench.echo.pid),
    )
    blocks = [call.bodies[start : start + BLOCK] for start in range(0, count, BLOCK)]
    for number, block in enumerate(blocks):
        for target in targets if number % 2 else reversed(targets):
            answers = await target.run(block)
            if target is targets[0]:
                for answer in answers:
                    call.check(answer)
    return Row(call.name, nodes, *(target.measured() for target in targets))


@dataclass(slots=True)
class _Target:
    """One server and path, and what was measured of it so far."""

    transport: Transport
    path: str
    pid: int
    seconds: list[float] = field(default_factory=list)
    cpu_s: float | None = 0.0

    async def run(self, bodies: Sequence[bytes]) -> list[Answer]:
        before = cpu_seconds(self.pid)
        results = [await timed(self.transport, self.path, body) for body in bodies]
        await asyncio.sleep(SETTLE_S)  # work that a call leaves behind is part of its cost
        after = cpu_seconds(self.pid)
        known = before is not None and after is not None and self.cpu_s is not None
        self.cpu_s = self.cpu_s + after - before if known else None  # type: ignore[operator]
        self.seconds += [seconds for seconds, _ in results]
        return [answer for _, answer in results]

    def measured(self) -> Measured:
        cpu_us = None if self.cpu_s is None else self.cpu_s / len(self.seconds) * 1e6
        return Measured(times(self.seconds), cpu_us)


# -- the calls -----------------------------------------------------------------------------------------------


def expect_nodes(count: int) -> Callable[[Answer], None]:
    """A filter answer must leave exactly `count` nodes."""

    def check(answer: Answer) -> None:
        document = json.loads(answer.body)
        left = document["NodeNames"] or []
        if document["Error"] or len(left) != count:
            raise CallError(f"{len(left)} nodes left instead of {count}: {answer.body[:300]!r}")

    return check


def expect_scores(count: int) -> Callable[[Answer], None]:
    """A prioritize answer must score `count` nodes."""

    def check(answer: Answer) -> None:
        if len(json.loads(answer.body)) != count:
            raise CallError(f"not {count} scores: {answer.body[:300]!r}")

    return check


def expect_bound(answer: Answer) -> None:
    """A bind answer must carry no error."""
    if json.loads(answer.body)["Error"]:
        raise CallError(f"bind failed: {answer.body!r}")


async def calls(bench: Bench, names: Sequence[str], count: int) -> list[Call]:
    """What is measured at this number of nodes, with `count` different bodies where a body serves only once."""
    hello = bench.tangram.hello
    body = args_body(pod_of(hello["planned"][0]), names)
    refused = args_body(pod_of(hello["refused"]), names)
    advised = args_body(pod_of(hello["advised"]), names)
    binds = [await _filtered(bench, planned, names) for planned in hello["planned"][1 : count + 1]]
    return [
        Call("filter, planned", "/v1/filter", [body] * count, expect_nodes(1)),
        Call("filter, refused", "/v1/filter", [refused] * count, expect_nodes(0)),
        Call("prioritize, advise", "/advise/v1/prioritize", [advised] * count, expect_scores(len(names))),
        Call("bind", "/v1/bind", binds, expect_bound),
    ]


def pod_of(entry: dict[str, Any]) -> dict[str, Any]:
    """The pod that the server told us of, as kube-scheduler would send it."""
    return pod(entry["name"], entry["uid"], gpus=entry["gpus"], fraction=entry["fraction"])


async def _filtered(bench: Bench, planned: dict[str, Any], names: Sequence[str]) -> bytes:
    """The bind call that kube-scheduler makes after it asked `filter` about the pod."""
    _, answer = await timed(bench.to_tangram, "/v1/filter", args_body(pod_of(planned), names))
    expect_nodes(1)(answer)
    node = json.loads(answer.body)["NodeNames"][0]
    return bind_body(planned["name"], NAMESPACE, planned["uid"], node)


async def burst(bench: Bench, bodies: Sequence[bytes]) -> dict[str, float]:
    """All binds at once, then the same number of echo calls at once: seconds for all of them."""
    result = {}
    for name, transport, path in (("tangram", bench.to_tangram, "/v1/bind"), ("echo", bench.to_echo, "/echo")):
        start = time.perf_counter()
        answers = await at_once(transport, path, bodies)
        result[name] = time.perf_counter() - start
        if name == "tangram":
            for _, answer in answers:
                expect_bound(answer)
    return result


# -- the run -------------------------------------------------------------------------------------------------


async def run(sizes: Sequence[int] = SIZES, count: int = 400) -> dict[str, Any]:
    """Measures everything at every size; prints as it goes; returns what is written to JSON."""
    rows: list[Row] = []
    bursts: dict[str, dict[str, float]] = {}
    async with server("benchmarks.servers", ["echo"]) as echo:
        for size in sizes:
            arguments = ["tangram", "--nodes", str(size), "--pods", str(count + BURST + 1)]
            async with (
                server("benchmarks.servers", arguments) as tangram,
                transport_to(tangram) as to_tangram,
                transport_to(echo) as to_echo,
            ):
                bench = Bench(tangram, echo, to_tangram, to_echo)
                names = node_names(size)
                for call in await calls(bench, names, count):
                    await _warm_up(bench, call)
                    rows.append(await measure(bench, call, size, count))
                    report.console.print(f"  {call.name} at {size:,} nodes: p50 ratio {rows[-1].ratio:.2f}")
                late = tangram.hello["planned"][count + 1 :]
                bursts[str(size)] = await burst(bench, [await _filtered(bench, one, names) for one in late])
    show(rows, bursts)
    return {"calls": [row.document() for row in rows], "bind_burst_s": bursts, "burst": BURST}


async def _warm_up(bench: Bench, call: Call) -> None:
    """Calls that are not measured; a bind repeated is answered like the first, so its bodies are left alone."""
    for number in range(WARM_UP):
        body = call.bodies[number % len(call.bodies)]
        if call.path != "/v1/bind":
            await timed(bench.to_tangram, call.path, body)
        await timed(bench.to_echo, "/echo", body)
        await timed(bench.to_echo, "/short", body)


def show(rows: Sequence[Row], bursts: dict[str, dict[str, float]]) -> None:
    """The tables."""
    title = "Webhooks, calls one after the other"
    report.table(title, COLUMNS, [row.cells() for row in rows])
    cells = [[int(size), times["tangram"] * 1000, times["echo"] * 1000] for size, times in bursts.items()]
    report.table(f"{BURST} binds at once", ("nodes", "ms for all", "echo ms"), cells, words=0)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.webhooks", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=list(SIZES), help="numbers of offered nodes")
    parser.add_argument("--calls", type=int, default=400, help="calls of each kind (at most 400)")
    options = parser.parse_args(arguments)
    results = uvloop.run(run(options.nodes, options.calls))
    report.write("webhooks", results)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
