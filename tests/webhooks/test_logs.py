"""Log lines: readable by programs and by people, and never a reason to wait."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from extender_api import logs

log = logging.getLogger("extender_api.test")
Start = Callable[..., tuple[io.StringIO, Callable[[], None]]]


@pytest.fixture
def start() -> Iterator[Start]:
    stops: list[Callable[[], None]] = []

    def configure(level: Any, form: Any, stream: io.StringIO | None = None) -> tuple[io.StringIO, Callable[[], None]]:
        out = stream or io.StringIO()
        stops.append(logs.configure(level, form, out))
        return out, lambda: stops.pop()()

    yield configure
    while stops:
        stops.pop()()


def test_json_lines_carry_the_fields(start: Start) -> None:
    out, stop = start("info", "json")
    log.info("planned %s on %s", "a/p", "n1", extra={"uid": "u1", "milli": 500})
    log.debug("not shown")
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("failed")
    stop()
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first | {"time": ""} == {
        "time": "",
        "level": "info",
        "logger": "extender_api.test",
        "msg": "planned a/p on n1",
        "uid": "u1",
        "milli": 500,
    }
    assert first["time"].endswith("Z")
    assert len(first["time"]) == len("2026-11-30T12:00:00.000Z")
    assert second["level"] == "error"
    assert "ValueError: broken" in second["exception"]


def test_plain_lines(start: Start) -> None:
    out, stop = start("debug", "plain")
    log.debug("looking at %s", "n1", extra={"uid": "u1"})
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("failed")
    stop()
    lines = out.getvalue().splitlines()
    assert lines[0].endswith(" DEBUG   extender_api.test: looking at n1 uid=u1")
    assert lines[1].endswith(" ERROR   extender_api.test: failed")
    assert lines[-1] == "ValueError: broken"


def test_libraries_are_quiet(start: Start) -> None:
    out, stop = start("debug", "plain")
    logging.getLogger("uvicorn.error").info("started")
    logging.getLogger("uvicorn.error").warning("something")
    stop()
    assert "started" not in out.getvalue()
    assert "something" in out.getvalue()


def test_everything_is_as_before_in_the_end(start: Start) -> None:
    root = logging.getLogger()
    uvicorn = logging.getLogger("uvicorn")
    before = root.handlers[:], root.level, uvicorn.level
    _, stop = start("error", "json")
    assert root.level == logging.ERROR
    stop()
    assert (root.handlers[:], root.level, uvicorn.level) == before


class Stuck(io.StringIO):
    """An output that takes nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def write(self, text: str) -> int:
        self.go.wait(10)
        return super().write(text)


def test_a_stuck_output_blocks_nobody_and_losses_are_told(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "QUEUE_LENGTH", 5)
    stuck = Stuck()
    _, stop = start("info", "json", stream=stuck)
    for at in range(50):
        log.info("line %d", at)
    stuck.go.set()
    while "line 4" not in stuck.getvalue():
        threading.Event().wait(0.01)
    log.info("last")
    stop()
    messages = [json.loads(line)["msg"] for line in stuck.getvalue().splitlines()]
    assert messages[:5] == [f"line {at}" for at in range(5)]
    assert messages[-2] == "last"
    lost = 50 - (len(messages) - 2)
    assert messages[-1] == f"{lost} log lines were dropped"
