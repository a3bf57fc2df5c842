"""The whole demo, small and fast."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from extender_api.demo import command


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(arguments))


def test_every_pod_that_can_run_runs_and_the_others_are_told_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "SPEED", 1e9)
    assert run("--pods", "40", "--seconds", "2", "--plain") == 0
    shown = capsys.readouterr().out
    assert "pods placed        40 of 42" in shown
    assert "refused by a node  0" in shown
    assert 'typo: gpu-fraction "1.5"' in shown
    assert "too-large: no node fits: " in shown
    assert "a100-1:[" in shown


def test_a_missing_trace_is_said_in_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("--trace", str(tmp_path / "none.csv")) == 2
    assert capsys.readouterr().err.startswith("tangram demo: ")


def test_zero_pods_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("--pods", "0")
    assert "must be at least 1" in capsys.readouterr().err
