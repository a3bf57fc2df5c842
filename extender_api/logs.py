"""Logging: one JSON object a line or plain text, written by a thread, so that a blocked output blocks nobody.

Rules: one INFO line for each decision about a pod, none for a node; fields go into `extra`, e.g.
`log.info("planned %s on %s", pod.key, node, extra={"uid": pod.uid})`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from typing import Final, Literal, TextIO

QUEUE_LENGTH: Final = 10_000
END_S: Final = 5.0
"""At the end a stuck output is waited for so long."""
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes that every record has; what else is there came with `extra`."""
QUIET: Final = ("uvicorn", "asyncio", "aiohttp", "numba")
"""Loggers of libraries: only warnings are of interest."""


class JsonFormatter(logging.Formatter):
    """A record as one JSON object: time, level, logger, msg, then the fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class PlainFormatter(logging.Formatter):
    """The same for people: one line, with the traceback below it."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        text = f"{_time(record)} {record.levelname:<7} {record.name}: {record.getMessage()}{fields}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class _DroppingHandler(QueueHandler):
    """Hands records to the writing thread as they are; when the queue is full they are dropped and counted."""

    def __init__(self, records: queue.Queue[logging.LogRecord | None]) -> None:
        super().__init__(records)
        self.dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        # formatting is left to the thread: arguments are values that nobody changes
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            super().enqueue(record)
        except queue.Full:
            self.dropped += 1
            return
        if self.dropped:
            self._report_dropped()

    def _report_dropped(self) -> None:
        lost, self.dropped = self.dropped, 0
        notice = logging.LogRecord(__name__, logging.WARNING, __file__, 0, "%d log lines were dropped", (lost,), None)
        try:
            super().enqueue(notice)
        except queue.Full:
            self.dropped = lost


class _Writer(QueueListener):
    """The writing thread."""

    def __init__(self, records: queue.Queue[logging.LogRecord | None], writer: logging.Handler) -> None:
        super().__init__(records, writer)
        self._records = records

    def enqueue_sentinel(self) -> None:
        """Asks the thread to end; a full queue is given time to empty."""
        self._records.put(None, timeout=END_S)


def configure(
    level: Literal["debug", "info", "warning", "error"] = "info",
    form: Literal["json", "plain"] = "json",
    stream: TextIO | None = None,
) -> Callable[[], None]:
    """Sends all logging of the process to `stream` (standard error). Call the result at the end: it writes the rest."""
    writer = logging.StreamHandler(stream or sys.stderr)
    writer.setFormatter(JsonFormatter() if form == "json" else PlainFormatter())
    records: queue.Queue[logging.LogRecord | None] = queue.Queue(QUEUE_LENGTH)
    handler = _DroppingHandler(records)
    listener = _Writer(records, writer)
    root = logging.getLogger()
    quiet = [logging.getLogger(name) for name in QUIET]
    handlers, levels = root.handlers[:], {logger: logger.level for logger in (root, *quiet)}
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for logger in quiet:
        logger.setLevel(max(logging.WARNING, root.level))
    listener.start()

    def stop() -> None:
        root.handlers[:] = handlers
        for logger, level_before in levels.items():
            logger.setLevel(level_before)
        with contextlib.suppress(queue.Full):  # the output is stuck: what is left cannot be written
            listener.stop()

    return stop


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _OWN}
