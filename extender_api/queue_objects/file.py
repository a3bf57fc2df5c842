"""Queues and Topologies from a file, for a cluster without such objects: read, and read anew when it changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import yaml

from extender_api.cluster.fields import DecodeError
from extender_api.plan_yaml import Loader
from extender_api.queue_objects.read import KIND, name_of, read_queue
from extender_api.topology_objects import read as topologies
from extender_api.yaml_doubles import NoDoubles
from queues.spec import QueueSpec, Source
from topology.topology import Topology

logger = logging.getLogger(__name__)

DEEPEST_LIST: Final = 4
Stamp = tuple[int, int, int]


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


Named = TypeVar("Named", bound=_HasName)


class _Loader(NoDoubles, Loader):
    """As kubectl reads YAML, without doubles."""


@dataclass(frozen=True, slots=True)
class FileContent:
    """The queues and topologies of a file, what is wrong with the rest of it, and what of both cannot be read."""

    queues: tuple[QueueSpec, ...] = ()
    topologies: tuple[Topology, ...] = ()
    problems: tuple[str, ...] = ()
    broken: frozenset[tuple[str, str]] = frozenset()
    """Kind and name."""


def read_file(text: str, name: str) -> FileContent:
    """Reads YAML documents, lists of objects among them. Problems name the file, the document and the field.

    Raises DecodeError for a file that is no YAML. Queues of KAI's kind keep its meaning.
    """
    try:
        documents = list(yaml.load_all(text, Loader=_Loader))
    except yaml.YAMLError as err:
        raise DecodeError(name, (), _not_yaml(err)) from None
    found: dict[str, list[Any]] = {KIND: [], topologies.KIND: []}
    problems: list[str] = []
    broken: set[tuple[str, str]] = set()
    for where, content in _objects(documents, name):
        kind = content.get("kind") if isinstance(content, Mapping) else None
        if not isinstance(kind, str) or kind not in _READERS:
            problems.append(f"{where}: not a Queue or Topology; nothing else is read from this file")
            continue
        try:
            found[kind].append(_READERS[kind](content))
        except DecodeError as err:
            problems.append(f"{where}: {err}")
            broken.add((kind, name_of(content)))
    return FileContent(tuple(found[KIND]), tuple(found[topologies.KIND]), tuple(problems), frozenset(broken))


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], QueueSpec | Topology]]] = {
    KIND: lambda content: read_queue(content, Source.FILE),
    topologies.KIND: topologies.read_topology,
}


def _not_yaml(err: yaml.YAMLError) -> str:
    mark = getattr(err, "problem_mark", None)
    at = f", line {mark.line + 1}" if mark is not None else ""
    return f"not YAML{at}: {getattr(err, 'problem', None) or err}"


def _objects(documents: list[Any], name: str) -> Iterator[tuple[str, Any]]:
    """Every object with where it stands. Empty documents are none."""
    for number, document in enumerate(documents, start=1):
        if document is not None:
            yield from _unfolded(document, f"{name}, document {number}", DEEPEST_LIST)


def _unfolded(content: Any, where: str, deepest: int) -> Iterator[tuple[str, Any]]:
    listed = content.get("items") if isinstance(content, Mapping) else None
    if not isinstance(listed, list) or not deepest:
        yield where, content
        return
    for number, item in enumerate(listed, start=1):
        yield from _unfolded(item, f"{where}, item {number}", deepest - 1)


class QueueFile:
    """A file that is looked at again and again. What becomes unreadable, the whole or one object, stays as it was.

    `read` says whether it was read at all. A file that is being written is left alone until it rests.
    """

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self.read = False
        self.queues: tuple[QueueSpec, ...] = ()
        self.topologies: tuple[Topology, ...] = ()
        self.problems: tuple[str, ...] = ()
        self._taken: Stamp | None = None
        self._seen: Stamp | None = None

    def look(self) -> bool:
        """Reads the file if it is another than last time. Whether there may be other queues or problems now."""
        try:
            stamp = self._stamp()
            if stamp == self._taken and self.read:
                return False
            resting = stamp == self._seen or not self.read
            self._seen = stamp
            if not resting:
                return False
            content = read_file(self.path.read_text("utf-8"), str(self.path))
        except (OSError, UnicodeDecodeError) as err:
            why = err.strerror if isinstance(err, OSError) and err.strerror else str(err)
            return self._trouble(f"{self.path}: cannot be read: {why}", None)
        except DecodeError as err:
            return self._trouble(str(err), stamp)
        self._taken, self.read = stamp, True
        self.queues = _with_broken(KIND, self.queues, content.queues, content.broken)
        self.topologies = _with_broken(topologies.KIND, self.topologies, content.topologies, content.broken)
        self._tell(content.problems)
        return True

    def _trouble(self, problem: str, stamp: Stamp | None) -> bool:
        """The whole file is of no use; `stamp` is that of its content, None where there is none."""
        self._taken = stamp
        known = problem + ("; what was read before stays in force" if self.read else "")
        if (known,) == self.problems:
            return False
        self._tell((known,))
        return True

    def _tell(self, problems: tuple[str, ...]) -> None:
        for problem in problems:
            logger.warning("queues: %s", problem)
        self.problems = problems

    def _stamp(self) -> Stamp:
        """Changes with the file, and when a link to it is turned to another, as with mounted ConfigMaps."""
        found = self.path.stat()
        return (found.st_ino, found.st_mtime_ns, found.st_size)


def _with_broken(
    kind: str, before: tuple[Named, ...], now: tuple[Named, ...], broken: frozenset[tuple[str, str]]
) -> tuple[Named, ...]:
    """What is read now, and what has become unreadable as it was before."""
    read = {item.name for item in now}
    known = {item.name: item for item in before if (kind, item.name) in broken and item.name not in read}
    return (*now, *(known[name] for name in sorted(known)))
