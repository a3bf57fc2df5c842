"""The machinery around kernels: one set of types each, and a cache that no edit outlives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.kernels import _jit
from scheduler.kernels.warm import specialisations, warm

JIT = not os.environ.get("NUMBA_DISABLE_JIT")


def test_each_kernel_was_compiled_for_one_set_of_types() -> None:
    """Runs behind all other tests (conftest): none of them, and no code they ran, strayed from the canonical types."""
    counted = specialisations()
    assert len(counted) >= 10
    assert {name for name, count in counted.items() if count != int(JIT)} == set()


def test_warming_again_costs_nothing() -> None:
    warm()
    assert warm() < 1.0


def test_any_edit_to_any_kernel_changes_the_cache_folder(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one")
    (tmp_path / "b.py").write_text("two")
    before = _jit.digest(tmp_path)
    assert _jit.digest(tmp_path) == before
    (tmp_path / "b.py").write_text("three")
    assert _jit.digest(tmp_path) != before


def test_the_cache_lies_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    found = _jit.cache_folder()
    assert found is not None
    assert found.parent == tmp_path / "xdg" / "tangram" / "kernels"
    assert list(found.iterdir()) == []
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "given"))
    assert _jit.cache_folder() == tmp_path / "given"


def test_nowhere_to_write_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert _jit.cache_folder() is None


def test_kernels_run_uncached_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    program = (
        "import numpy\n"
        "from scheduler.kernels import _jit, score\n"
        "assert not _jit.CACHED\n"
        "print(score.cheapest(numpy.array([3, -1, 2]), numpy.ones(3, bool), numpy.arange(3)))\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "file")}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout.strip()) == (0, "2"), done.stderr
