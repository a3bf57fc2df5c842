"""What results depend on: the code that decides, and the traces."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from scheduler.simulate.openb import FOLDER, TraceError

DISTRIBUTION: Final = "tangram-scheduler"
PACKAGES: Final = ("scheduler", "queues", "topology")
ROOT: Final = Path(__file__).parents[2]
BYSTANDERS: Final = frozenset(
    f"scheduler/simulate/{name}.py" for name in ("cluster_workers", "fingerprint", "plots", "store", "sweep", "workers")
)
"""They run simulations or show what came of them, and change no result."""
TRACE_FILES: Final = ("openb_*.csv.gz", "sequences.tar.xz")


class Fingerprint(NamedTuple):
    """Results of one fingerprint go together."""

    version: str
    code: str
    traces: str


@cache
def fingerprint(folder: Path = FOLDER) -> Fingerprint:
    """That of this code and these traces. Raises TraceError where there are none."""
    files = sorted(path for pattern in TRACE_FILES for path in folder.glob(pattern))
    if not files:
        raise TraceError(
            f"{folder}: no traces are here. They lie in benchmarks/data/openb of Tangram's repository: work in a "
            "checkout of it, or say where they are with --data"
        )
    sources = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    deciding = [path for path in sources if path.relative_to(ROOT).as_posix() not in BYSTANDERS]
    return Fingerprint(_version(), _digest(deciding, ROOT), _digest(files, folder))


def _version() -> str:
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"


def _digest(files: Iterable[Path], root: Path) -> str:
    found = sha256()
    for path in files:
        content = path.read_bytes()
        found.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode() + content)
    return found.hexdigest()[:16]
