"""The Kubernetes binaries that a test run uses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.controlplane import build


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with the commands of `build.PACKAGES`."""

    folder: Path

    @classmethod
    def built(cls) -> Binaries:
        """The binaries of the cache, built first if need be (a quarter of an hour)."""
        return cls(build.ensure())

    def path(self, name: str) -> Path:
        return self.folder / name
