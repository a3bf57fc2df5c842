"""Whether our packages are ours: their names are common words, and another distribution may have one of the same."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

import extender_api
from extender_api.errors import TangramError

PACKAGES: Final = ("scheduler", "queues", "topology")


class ForeignPackage(TangramError):
    """A package of another distribution hides one of ours."""


def check() -> None:
    """Looks, without importing, whether all packages lie beside this one. Raises ForeignPackage."""
    here = Path(str(extender_api.__file__)).resolve().parent.parent
    for name in PACKAGES:
        spec = find_spec(name)
        where = None if spec is None else spec.origin or next(iter(spec.submodule_search_locations or ()), None)
        found = None if where is None else Path(where).resolve()
        if found is None:
            raise ForeignPackage(f'the Python package "{name}" is missing; it belongs beside {here / "extender_api"}')
        if here not in found.parents:
            raise ForeignPackage(
                f'the Python package "{name}" is not Tangram\'s: {found} is found before {here / name}. '
                "Run Tangram in a virtual environment of its own, without PYTHONPATH"
            )
