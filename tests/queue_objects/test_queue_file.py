"""Queues from a file: what is read, what is said about the rest, and what stays in force when it changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from extender_api.cluster.fields import DecodeError
from extender_api.queue_objects.file import QueueFile, read_file
from queues.spec import Source

GOOD = """
apiVersion: tangram.scheduler/v1alpha1
kind: Queue
metadata: {name: department, creationTimestamp: 2026-01-01T00:00:00Z}
spec: {resources: {gpu: {quota: 8}}}
---
# nothing here
---
apiVersion: v1
kind: List
items:
- {kind: Queue, metadata: {name: team-a}, spec: {parent: department, resources: {gpu: {quota: 4, limit: 6}}}}
- kind: List
  items:
  - {apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: team-b}, spec: {parentQueue: department}}
"""


def names(file: QueueFile) -> dict[str, int]:
    """Names with GPU quotas."""
    return {queue.name: queue.gpu.quota for queue in file.queues}


def one(name: str, quota: object) -> str:
    return f"---\nkind: Queue\nmetadata: {{name: {name}}}\nspec: {{resources: {{gpu: {{quota: {quota}}}}}}}\n"


def look(file: QueueFile) -> bool:
    """Once the file rests: a changed one is read at the second look."""
    return [file.look(), file.look()][-1]


def test_documents_and_lists_of_both_kinds() -> None:
    found = read_file(GOOD, "queues.yaml")
    assert found.problems == ()
    assert [(queue.name, queue.source) for queue in found.queues] == [
        ("department", Source.FILE),
        ("team-a", Source.FILE),
        ("team-b", Source.KAI),
    ]
    assert found.queues[0].created_ms > 0


RACKS = """
---
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: example.com/rack, alias: rack}]}
---
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: blocks}
spec: {levels: [{nodeLabel: example.com/block}]}
"""


def test_topologies_stand_beside_queues() -> None:
    found = read_file(one("a", 1) + RACKS, "queues.yaml")
    assert [queue.name for queue in found.queues] == ["a"]
    assert [(item.name, item.levels) for item in found.topologies] == [
        ("racks", ("example.com/rack",)),
        ("blocks", ("example.com/block",)),
    ]
    assert found.problems == ()


def test_each_problem_names_file_document_and_field() -> None:
    text = (
        one("a", 1)
        + one("b", "much")
        + "---\nkind: Pod\nmetadata: {name: p}\n---\n[1]\n---\nitems: [7]\n"
        + one("c", 2)
    )
    found = read_file(text, "queues.yaml")
    assert [queue.name for queue in found.queues] == ["a", "c"]
    assert found.broken == {("Queue", "b")}
    assert found.problems == (
        "queues.yaml, document 2: Queue b: spec.resources.gpu.quota: 'much' is not a Kubernetes quantity; write a "
        "Kubernetes quantity, or -1 for unlimited",
        "queues.yaml, document 3: not a Queue or Topology; nothing else is read from this file",
        "queues.yaml, document 4: not a Queue or Topology; nothing else is read from this file",
        "queues.yaml, document 5, item 1: not a Queue or Topology; nothing else is read from this file",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: [", "q.yaml: not YAML, line "),
        ("kind: Queue\nmetadata: {name: a}\nspec: {}\nspec: {}\n", "q.yaml: not YAML, line 4: spec is given twice"),
        ("kind: Queue\n\tx: 1", "q.yaml: not YAML, line 2: "),
    ],
)
def test_what_is_no_yaml_is_no_file_of_queues(text: str, said: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_file(text, "q.yaml")
    assert str(caught.value).startswith(said)


class TestWatching:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "queues.yaml"

    def test_it_is_read_once_and_again_when_it_changed(self, path: Path) -> None:
        path.write_text(one("a", 1))
        file = QueueFile(path)
        assert file.look()
        assert names(file) == {"a": 1000}
        assert not look(file)
        path.write_text(one("a", 2) + one("b", 3))
        assert look(file)
        assert names(file) == {"a": 2000, "b": 3000}
        path.write_text("")
        assert look(file)
        assert names(file) == {}

    def test_it_is_not_read_while_it_is_being_written(self, path: Path) -> None:
        path.write_text(one("a", 1) + one("b", 1))
        file = QueueFile(path)
        file.look()
        path.write_text(one("a", 2))
        assert not file.look()
        path.write_text(one("a", 2) + one("b", 2))
        assert not file.look()
        assert names(file) == {"a": 1000, "b": 1000}, "never seen half"
        assert file.look()
        assert names(file) == {"a": 2000, "b": 2000}

    def test_links_that_are_turned_as_with_mounted_config_maps(self, path: Path, tmp_path: Path) -> None:
        """A ConfigMap's volume has `..data`, a link to a folder, and files that are links through it."""
        for version in (1, 2):
            (tmp_path / f"..v{version}").mkdir()
            (tmp_path / f"..v{version}" / "queues.yaml").write_text(one("a", version))
        (tmp_path / "..data").symlink_to("..v1")
        path.symlink_to("..data/queues.yaml")
        file = QueueFile(path)
        file.look()
        (tmp_path / "..new").symlink_to("..v2")
        os.replace(tmp_path / "..new", tmp_path / "..data")
        assert look(file)
        assert names(file) == {"a": 2000}

    def test_a_change_that_leaves_the_size_is_seen(self, path: Path) -> None:
        path.write_text(one("a", 1))
        file = QueueFile(path)
        file.look()
        stamp = path.stat()
        path.write_text(one("a", 2))
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))
        assert look(file)
        assert names(file) == {"a": 2000}

    def test_a_file_that_became_malformed_keeps_its_queues_and_says_so(self, path: Path) -> None:
        path.write_text(one("a", 1))
        file = QueueFile(path)
        file.look()
        path.write_text("kind: [")
        assert look(file)
        assert names(file) == {"a": 1000}
        assert file.problems[0].startswith(f"{path}: not YAML, line ")
        assert file.problems[0].endswith("; what was read before stays in force")
        assert not look(file), "said once"
        path.write_text(one("a", 3))
        assert look(file)
        assert (names(file), file.problems) == ({"a": 3000}, ())

    def test_a_queue_that_became_malformed_stays_as_it_was(self, path: Path) -> None:
        path.write_text(one("a", 1) + one("b", 1) + one("c", 1))
        file = QueueFile(path)
        file.look()
        path.write_text(one("a", "much") + one("b", 2))
        assert look(file)
        assert names(file) == {"a": 1000, "b": 2000}, "c is gone, a is broken"
        assert len(file.problems) == 1
        path.write_text(one("a", "more") + one("b", 2))
        assert look(file)
        assert names(file) == {"a": 1000, "b": 2000}, "still"

    def test_a_topology_that_became_malformed_stays_as_it_was(self, path: Path) -> None:
        path.write_text(one("racks", 1) + RACKS)
        file = QueueFile(path)
        file.look()
        path.write_text(RACKS.replace("[{nodeLabel: example.com/rack", "[{label: example.com/rack"))
        assert look(file)
        assert names(file) == {}, "a queue of the same name is something else"
        assert {item.name: item.levels for item in file.topologies} == {
            "racks": ("example.com/rack",),
            "blocks": ("example.com/block",),
        }
        (problem,) = file.problems
        assert problem.startswith(f"{path}, document 1: Topology racks: spec.levels[0]")
        path.write_text("")
        assert look(file)
        assert file.topologies == ()

    def test_a_good_definition_beside_a_broken_one_counts(self, path: Path) -> None:
        path.write_text(one("a", 1))
        file = QueueFile(path)
        file.look()
        path.write_text(one("a", "much") + one("a", 2))
        assert look(file)
        assert [queue.gpu.quota for queue in file.queues] == [2000]

    def test_a_file_that_went_keeps_its_queues(self, path: Path) -> None:
        path.write_text(one("a", 1))
        file = QueueFile(path)
        file.look()
        path.unlink()
        assert file.look()
        assert names(file) == {"a": 1000}
        assert file.problems == (
            f"{path}: cannot be read: No such file or directory; what was read before stays in force",
        )
        assert not file.look()
        path.write_text(one("a", 1))
        assert look(file)
        assert not file.problems

    def test_a_file_that_was_never_read(self, path: Path) -> None:
        file = QueueFile(path)
        assert file.look()
        assert not file.read
        assert file.problems == (f"{path}: cannot be read: No such file or directory",)
        assert not file.look()
        path.write_bytes(b"\xff\xfe")
        assert file.look()
        assert not file.read
        assert "cannot be read" in file.problems[0]
        path.write_text("kind: [")
        assert file.look()
        assert not file.read
        path.write_text(one("a", 1))
        assert file.look()
        assert file.read
        assert names(file) == {"a": 1000}
