"""Results in a file, one JSON line each, so that what is interrupted goes on where it was."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from scheduler.simulate.fingerprint import Fingerprint
from scheduler.simulate.task import SweepError, Task

FORMAT: Final = "tangram-sweep/1"
_BEGINNING: Final = b'{"format": "tangram-sweep/'


class Store:
    """The results that are there, and a place for more. One process has it at a time.

    A last line without its end, as a kill leaves it, counts as not written.
    """

    def __init__(self, path: Path, fingerprint: Fingerprint, *, anew: bool = False) -> None:
        """`anew` throws away what is there. Raises SweepError."""
        self.results: dict[str, dict[str, Any]] = {}
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
        except OSError as err:
            raise SweepError(f"{path}: {err.strerror or err}") from None
        try:
            self._lock()
            self._open(fingerprint, anew)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, task: Task, result: dict[str, Any]) -> None:
        """Keeps a result; it is on the disk when this returns."""
        self._write({"key": task.key, "task": task._asdict(), "result": result})
        self.results[task.key] = result

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SweepError(f"{self._path}: another sweep writes to it; wait for it, or take another file") from None
        except OSError as err:
            raise SweepError(f"{self._path} cannot be locked: {err.strerror or err}. Take a local folder") from None

    def _open(self, fingerprint: Fingerprint, anew: bool) -> None:
        self._file.seek(0)
        content = self._file.read()
        if content and not (content.startswith(_BEGINNING) or _BEGINNING.startswith(content)):
            raise SweepError(f"{self._path} is no file of a sweep: take another")
        whole = 0 if anew else content.rfind(b"\n") + 1
        self._file.truncate(whole)
        lines = content[:whole].splitlines()
        if lines:
            self._check(_header(lines[0]), fingerprint)
            self._read(lines[1:])
        else:
            self._write({"format": FORMAT, **fingerprint._asdict()})

    def _check(self, header: dict[str, Any], ours: Fingerprint) -> None:
        if header.get("format") != FORMAT:
            theirs = header.get("format")
            raise SweepError(f"{self._path} has format {theirs}, this Tangram reads {FORMAT}: begin anew")
        other = Fingerprint(*(str(header.get(name)) for name in Fingerprint._fields))
        if other == ours:
            return
        if other.version != ours.version:
            differs = f"Tangram {other.version}, this is {ours.version}"
        elif other.code != ours.code:
            differs = "other code: files of scheduler, queues or topology have changed since"
        else:
            differs = "other traces"
        raise SweepError(
            f"{self._path} has results of {differs}. They do not go together: begin anew, or take another file"
        )

    def _read(self, lines: list[bytes]) -> None:
        for number, line in enumerate(lines, 2):
            try:
                entry = json.loads(line)
                key, result = str(entry["key"]), dict(entry["result"])
            except (ValueError, KeyError, TypeError):
                raise SweepError(f"{self._path}, line {number}: no result. Remove the line, or begin anew") from None
            self.results[key] = result

    def _write(self, entry: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(entry).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as err:
            raise SweepError(f"{self._path}: {err.strerror or err}") from None


def _header(line: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except ValueError:
        return {}
