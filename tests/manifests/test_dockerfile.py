"""The steps of the Dockerfile, run as far as they run without Docker."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from extender_api import __version__

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


def steps(word: str) -> list[str]:
    """What follows an instruction, in the order of the file."""
    return re.findall(rf"^{word} (.+)$", DOCKERFILE, re.MULTILINE)


def environment() -> dict[str, str]:
    """What ENV sets, with the defaults of ARG."""
    given = dict(line.split("=", 1) for line in steps("ARG"))
    pairs = (pair.split("=", 1) for line in steps("ENV") for pair in line.split())
    return {key: given.get(value.removeprefix("$"), value) for key, value in pairs}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by the Dockerfile's command from what .dockerignore lets through."""
    source, wheels = tmp_path_factory.mktemp("src"), tmp_path_factory.mktemp("wheels")
    ignore = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    kept = [line[1:] for line in ignore if line.startswith("!")]
    assert "*" in ignore, "what is not named stays outside"
    for name in kept:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    (command,) = (step for step in steps("RUN") if step.startswith("pip wheel"))
    # the build backend is installed here already: no network is needed
    command = command.replace("/wheels", str(wheels)).replace("pip wheel", "pip wheel --no-build-isolation")
    subprocess.run(f"{sys.executable} -m {command}", shell=True, cwd=source, check=True, capture_output=True)
    (built,) = wheels.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's content alone, in a folder; what it depends on comes from this environment."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(folder),
        str(wheel),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def run(installed: Path, cache: Path, *command: str) -> str:
    env = {**os.environ, **environment(), "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(installed)}
    env.pop("NUMBA_DISABLE_JIT", None)
    done = subprocess.run(command, env=env, cwd=installed, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_is_complete(wheel: Path) -> None:
    assert wheel.name.startswith(f"tangram_scheduler-{__version__}-")
    names = set(zipfile.ZipFile(wheel).namelist())
    for package in ("extender_api", "scheduler", "queues", "topology"):
        assert f"{package}/py.typed" in names
        modules = {str(path.relative_to(ROOT)) for path in (ROOT / package).rglob("*.py")}
        assert modules <= names
    manifests = {str(path.relative_to(ROOT)) for path in (ROOT / "manifests").rglob("*") if path.is_file()}
    assert {f"extender_api/_{name}" for name in manifests} <= names
    assert fnmatch.filter(names, "*.dist-info/licenses/LICENSE")
    assert not fnmatch.filter(names, "tests/*")


def test_the_image_starts_the_command_that_the_wheel_installs(installed: Path, tmp_path: Path) -> None:
    (entry,) = steps("ENTRYPOINT")
    assert entry == '["tangram"]'
    assert (installed / "bin" / "tangram").exists()
    assert __version__ in run(installed, tmp_path, sys.executable, str(installed / "bin" / "tangram"), "--version")
    assert steps("CMD") == ['["serve"]']
    assert steps("USER") == ["65532:65532"]


def test_installed_code_reads_the_manifests_it_brought(installed: Path, tmp_path: Path) -> None:
    code = "from extender_api.doctor import shipped; print(shipped.folder(), len(shipped.base()))"
    folder, count = run(installed, tmp_path, sys.executable, "-c", code).split()
    assert Path(folder) == installed / "extender_api" / "_manifests"
    assert int(count) > 10


def test_kernels_compiled_in_the_image_are_used_from_the_copied_cache(installed: Path, tmp_path: Path) -> None:
    """The image compiles; the pod copies the folder to a writable volume and must not compile again."""
    (warm,) = (step for step in steps("RUN") if "warm" in step)
    assert environment()["NUMBA_CACHE_DIR"] == "/var/cache/tangram"
    built, copied = tmp_path / "built", tmp_path / "copied"
    run(installed, built, *shell(warm))
    shutil.copytree(built, copied)

    hits = (
        "from scheduler.kernels import _jit; from scheduler.kernels.warm import warm; warm(); "
        "print(sum(sum(k.stats.cache_misses.values()) for k in _jit.KERNELS.values()), "
        "sum(sum(k.stats.cache_hits.values()) for k in _jit.KERNELS.values()))"
    )
    missed, hit = map(int, run(installed, copied, sys.executable, "-c", hits).split())
    assert missed == 0
    assert hit > 0


def shell(step: str) -> tuple[str, ...]:
    """A step as a command with this Python."""
    return ("sh", "-c", step.replace("python ", f"{sys.executable} ", 1))
