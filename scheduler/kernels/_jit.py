"""The one decorator of all kernels, and where their machine code is kept between runs.

numba notices an edit only in a kernel's own file, not in a file of a kernel that it calls. So the cache folder is named
after a digest of the whole package: any edit to any kernel starts a fresh one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

KERNELS: Final[dict[str, Any]] = {}
"""Every kernel by its name, as numba made it (plain functions when NUMBA_DISABLE_JIT is set)."""


def digest(folder: Path) -> str:
    """Changes with every edit to a module of `folder`."""
    return sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))).hexdigest()[:12]


def usable(folder: Path) -> bool:
    """Whether files can be made in `folder`, which is created if need be."""
    probe = folder / f".probe-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError:
        return False
    return True


def cache_folder() -> Path | None:
    """Where compiled kernels are kept, or None when no place can be written.

    NUMBA_CACHE_DIR, where set, is taken as it stands. There is no fallback to a folder that other users can write:
    numba loads what it finds there as code.
    """
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        folder = Path(given)
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(base) / "tangram" / "kernels" / digest(Path(__file__).parent)
    return folder if usable(folder) else None


def _prepare() -> bool:
    folder = cache_folder()
    if folder is None:
        return False
    numba.config.CACHE_DIR = str(folder)
    return True


CACHED: Final = _prepare()


def inner(function: F) -> F:
    """A small function that kernels call, compiled together with each of them: for what two kernels must do alike."""
    return cast("F", numba.njit(function, nogil=True, error_model="numpy"))


def kernel(function: F) -> F:
    """Compiles on the first call; holds no GIL while it runs.

    The numpy error model only removes the check for division by zero: callers divide by positive numbers alone. Nearly
    all kernels calculate with integers; the few that take floats keep the order of their sums, so there is no fastmath.
    """
    compiled = numba.njit(function, cache=CACHED, nogil=True, error_model="numpy")
    KERNELS[function.__name__] = compiled
    return cast("F", compiled)
