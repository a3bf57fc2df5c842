"""The commented example and the flags are made from the settings, and say the same."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

from extender_api import settings_fields, settings_flags
from extender_api.settings import Settings
from extender_api.settings_sources import load
from extender_api.settings_yaml import example


def test_the_example_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(example())
    assert load(path) == Settings()


def test_the_example_without_its_comment_signs_is_the_defaults(tmp_path: Path) -> None:
    names = {field.path[-1] for field in settings_fields.fields().values()}
    pattern = re.compile(rf"^( *)# ((?:{'|'.join(names)}): )", re.MULTILINE)
    text, count = pattern.subn(r"\1\2", example())
    assert count == len(settings_fields.fields())
    path = tmp_path / "example.yaml"
    path.write_text(text)
    assert load(path) == Settings()


def test_flags() -> None:
    parser = argparse.ArgumentParser()
    settings_flags.add_arguments(parser)
    line = "--config f.yaml --extender-address 127.0.0.1:1 --offline --no-devices-shares-by-default --lease-mode follow"
    arguments = parser.parse_args(line.split())
    given = settings_flags.given(arguments)
    assert arguments.config == "f.yaml"
    assert given == {
        "extender.address": "127.0.0.1:1",
        "offline": True,
        "devices.shares_by_default": False,
        "lease.mode": "follow",
    }
    found = load(flags=given)
    assert (found.extender.address, found.offline, found.lease.mode) == ("127.0.0.1:1", True, "follow")


def test_the_file_of_queues_has_a_short_flag() -> None:
    parser = argparse.ArgumentParser()
    settings_flags.add_arguments(parser)
    for flag in ("--queues", "--queues-file"):
        given = settings_flags.given(parser.parse_args([flag, "q.yaml"]))
        assert given == {"queues.file": "q.yaml"}
        assert load(flags=given).queues.file == Path("q.yaml")


def test_no_flags_give_nothing() -> None:
    parser = argparse.ArgumentParser()
    settings_flags.add_arguments(parser)
    assert settings_flags.given(parser.parse_args([])) == {}


def test_help_shows_every_flag_with_its_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    settings_flags.add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for field in settings_fields.fields().values():
        assert field.flag in shown


def test_help_needs_no_kubernetes_and_no_solver() -> None:
    code = (
        "import sys; import extender_api.settings_flags, extender_api.settings_sources; "
        "print(sorted({'kubernetes', 'ortools', 'fastapi', 'numba', 'aiohttp'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
