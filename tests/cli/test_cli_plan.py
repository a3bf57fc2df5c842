"""`tangram plan`: files of every form, options, exit statuses; the same answer as the ops API gives."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from extender_api.cli import main
from tests.cli.conftest import OpsServer
from tests.plan import documents
from tests.plan.documents import NOW, leaving, node, placed, pod
from tests.plan.test_plan_properties import clusters

OBJECTS = [node("n1", 2), pod("a", fraction="0.5"), pod("b", gpus=1)]


def write(path: Path, *parts: object) -> str:
    path.write_text("---\n".join(yaml.safe_dump(part) for part in parts))
    return str(path)


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """Exit status and answer."""
    status = main(["plan", "-o", "json", "--shares", "--now", NOW, *arguments])
    return status, json.loads(capsys.readouterr().out)


def test_documents_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, answer = planned(capsys, "-f", write(tmp_path / "all.yaml", *OBJECTS))
    assert status == 0
    assert placed(answer) == {"a": ("n1", [(0, 20_000, 500)], "now"), "b": ("n1", [(1, 40_000, 1000)], "now")}


def test_many_files_lists_and_empty_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = write(tmp_path / "nodes.yaml", {"apiVersion": "v1", "kind": "List", "items": OBJECTS[:1]})
    pods = tmp_path / "pods.yaml"
    pods.write_text("---\n# nothing\n---\n" + yaml.safe_dump(OBJECTS[1]))
    more = tmp_path / "more.json"
    more.write_text(json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [OBJECTS[2]]}))
    assert set(placed(planned(capsys, "-f", nodes, "-f", str(pods), "-f", str(more))[1])) == {"a", "b"}


def test_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(yaml.safe_dump_all(OBJECTS)))
    assert set(placed(planned(capsys, "-f", "-")[1])) == {"a", "b"}


def test_a_plan_document_with_its_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    going = leaving(documents.holding("going", "n1", (0, 40_000, 1000), gpus=1), "2020-01-01T00:00:10Z")
    document = {
        "objects": [node("n1", 1), going, pod("a", gpus=1)],
        "options": {"now": "2020-01-01T00:00:00Z", "placement": "spread"},
    }
    path = write(tmp_path / "document.yaml", document)
    assert main(["plan", "-f", path, "-o", "json"]) == 0
    assert placed(json.loads(capsys.readouterr().out))["a"][2] == "after-release"
    # the command line wins, part by part
    status, answer = planned(capsys, "-f", path, "--placement-gpu", "binpack")
    assert (status, placed(answer)) == (1, {})


def test_placement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "f.yaml", node("n1", 2), node("n2", 2), pod("held", gpus=1, on="n1"), pod("a", gpus=1))
    assert placed(planned(capsys, "-f", path)[1])["a"][0] == "n1"
    assert placed(planned(capsys, "-f", path, "--placement-gpu=spread")[1])["a"][0] == "n2"


def test_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    going = leaving(documents.holding("going", "n2", (0, 40_000, 1000), gpus=1))
    path = write(
        tmp_path / "f.yaml", node("n1", 2), node("n2", 1), going, pod("a", fraction="0.25"), pod("b", memory="5000"),
        pod("c", gpus=1), pod("d", gpus=1), pod("e", gpus=3), pod("f"), {"kind": "Service", "metadata": {"name": "s"}},
    )  # fmt: skip
    assert main(["plan", "-f", path, "--shares", "--now", NOW]) == 1
    lines = capsys.readouterr().out.splitlines()
    waits = lines.pop(5)
    assert waits.startswith("team/e waits: no node fits: 2 nodes: too few whole GPUs (")
    assert lines == [
        "team/a → n1  [gpu0 25 % 10,000 MiB]",
        "team/b → n1  [gpu0 5,000 MiB]",
        "team/c → n1  [gpu1]",
        "team/d → n2  [gpu0]  (after a release)",
        "team/f → n1",
        "! Service objects play no part in a plan",
    ]


def test_nothing_to_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-f", write(tmp_path / "f.yaml", node("n1"))]) == 0
    assert capsys.readouterr().out == "nothing to plan\n"


def test_bad_input_is_named_and_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "f.yaml", node("n1"), node("n1"), "text")
    assert main(["plan", "-f", path, "--now", "soon"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 3
    assert all(line.startswith("tangram plan: ") for line in said.err.splitlines())
    assert main(["plan", "-f", path, "-o", "json"]) == 2
    assert len(json.loads(capsys.readouterr().out)["warnings"]) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: [", "f.yaml"),
        (b"\xff\xfe\xff", "f.yaml"),
        (b"[" * 50_000, "f.yaml"),
        (b"options: 3\nobjects: []", "options"),
    ],
)
def test_files_that_cannot_be_read(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "f.yaml").write_bytes(content)
    assert main(["plan", "-f", str(tmp_path / "f.yaml")]) == 2
    assert said in capsys.readouterr().err
    assert main(["plan", "-f", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml: No such file" in capsys.readouterr().err


def test_a_time_in_yaml_stays_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(
        "kind: Pod\nmetadata:\n  name: p\n  creationTimestamp: 2026-01-01T00:00:00Z\n  labels: {since: 2026-01-01}\n"
        "spec: {schedulerName: tangram}\n"
    )
    assert [item["pods"] for item in planned(capsys, "-f", str(path))[1]["pending"]] == [["p"]]


def test_settings_count_as_for_the_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "tangram.yaml"
    config.write_text("scheduler_name: mine\ndevices: {shares_by_default: true, reserve_mib: 1000}\n")
    path = write(tmp_path / "f.yaml", node("n1", 1), pod("a", fraction="0.5", scheduler="mine"), pod("b"))
    assert main(["plan", "-f", path, "-o", "json", "--config", str(config)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert placed(answer) == {"a": ("n1", [(0, 19_500, 500)], "now")}
    assert "team/b" in answer["warnings"][0]


@given(objects=clusters())
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_command_and_the_api_say_the_same(
    objects: list[Any], ops: OpsServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, answer = planned(capsys, "-f", write(tmp_path / "f.yaml", {"objects": objects}))
    body = json.dumps({"objects": objects, "options": {"now": NOW}}).encode()
    with urlopen(Request(f"{ops.url}/api/v1/plan", body), timeout=30) as response:
        assert json.load(response) == answer
    assert status == (1 if answer["pending"] else 0)
