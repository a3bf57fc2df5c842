"""The command as a whole: what it imports, how it says that something is wrong, and its names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import extender_api
from extender_api.cli import main
from extender_api.cli.main import COMMANDS
from extender_api.errors import TangramError

NAMES = [command.name for command in COMMANDS]
SLOW = {"kubernetes", "ortools", "numba", "numpy", "fastapi", "uvicorn", "aiohttp", "prometheus_client"}
ROOT = Path(str(extender_api.__file__)).parent.parent


def imported(*arguments: str) -> set[str]:
    """The top-level modules that the command has imported at its end."""
    program = (
        "import sys, json; sys.argv = ['tangram', *sys.argv[1:]]\n"
        "from extender_api.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('\\n' + json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([name, "--help"] for name in NAMES)])
def test_help_is_quick(arguments: list[str]) -> None:
    assert imported(*arguments) & SLOW == set()


def test_help_of_the_whole_imports_hardly_anything() -> None:
    assert imported("--help") & {"pydantic", "yaml", "rich", "asyncio", *SLOW} == set()


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"usage: tangram {name}" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["plan", "nodes", "explain", "doctor", "uninstall"])
def test_what_a_program_may_read_comes_as_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    assert "-o {text,json}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["dance"], ["plan"], ["nodes", "--colour"]])
def test_what_is_not_understood_is_said_on_standard_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "usage: tangram" in said.err


def with_command(monkeypatch: pytest.MonkeyPatch, run: Any) -> None:
    """Puts another `nodes` in place of the real one."""
    module: Any = types.ModuleType("extender_api.cli.nodes")
    module.add_arguments = lambda parser: None
    module.run = run
    monkeypatch.setitem(sys.modules, "extender_api.cli.nodes", module)


def raising(error: BaseException) -> Any:
    def run(_: object) -> int:
        raise error

    return run


def test_trouble_is_one_line_each_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_command(monkeypatch, raising(TangramError("first\nsecond")))
    assert main(["nodes"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "tangram nodes: first\ntangram nodes: second\n")


def test_a_fault_of_ours_is_trouble_with_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_command(monkeypatch, raising(ValueError("a fault")))
    assert main(["nodes"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    with_command(monkeypatch, raising(KeyboardInterrupt()))
    assert main(["nodes"]) == 130


def test_a_reader_that_has_seen_enough_is_no_trouble(tmp_path: Path) -> None:
    objects = [
        {"kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": {"schedulerName": "tangram"}}
        for number in range(3000)
    ]
    (tmp_path / "pods.json").write_text(json.dumps({"objects": objects}))
    command = f"set -o pipefail; {sys.executable} -m extender_api plan -f {tmp_path / 'pods.json'} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("default/p0 waits")


def test_a_terminal_without_our_characters_shows_others() -> None:
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    document = json.dumps(
        {
            "objects": [
                {"kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "1", "pods": "9"}}},
                {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"schedulerName": "tangram"}},
            ]
        }
    )
    done = subprocess.run(
        [sys.executable, "-m", "extender_api", "plan", "-f", "-"], input=document, capture_output=True, text=True,
        check=False, env=environ, cwd=ROOT,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "default/p ? n1\n")


def test_as_a_plugin_of_kubectl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-tangram", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.startswith("usage: kubectl tangram ")
    assert (Path(sys.executable).parent / "kubectl-tangram").exists()


def test_a_package_of_somebody_else_in_the_place_of_ours(tmp_path: Path) -> None:
    (tmp_path / "scheduler").mkdir()
    (tmp_path / "scheduler" / "__init__.py").write_text("raise SystemExit('imported')")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "extender_api", "serve", "--offline"], capture_output=True, text=True, check=False,
        env=environ, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith('tangram: the Python package "scheduler" is not Tangram\'s')
    assert str(tmp_path) in done.stderr
