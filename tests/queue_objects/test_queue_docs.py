"""docs/queues.md says what the code does: its example is read, and every field, class and key is there."""

from __future__ import annotations

import re
from pathlib import Path

from extender_api.queue_objects.file import read_file
from extender_api.queue_objects.model import QueueSpecModel
from extender_api.settings import Settings
from extender_api.settings_fields import fields
from queues.amounts import UNLIMITED
from queues.spec import Terms
from topology import gpu_model, vocabulary

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "queues.md").read_text("utf-8")


def test_the_example_is_read() -> None:
    (example,) = (block for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.S) if "kind: Queue\n" in block)
    content = read_file(example, "docs/queues.md")
    assert content.problems == ()
    (queue,) = content.queues
    assert (queue.name, queue.parent, queue.access.namespaces) == ("vision", "research", frozenset({"vision"}))
    assert queue.gpu == Terms(6000, 8000, 2000)
    assert queue.memory == Terms(1 << 40, 2 << 40)
    assert queue.models == {"H100": Terms(UNLIMITED, 2000)}


def test_every_field_is_in_the_table() -> None:
    cells = " ".join(line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| `"))
    for name in QueueSpecModel.model_fields:
        assert re.search(rf"`{name}[`.]", cells), name


def test_words_and_settings_are_those_of_the_code() -> None:
    for word in (vocabulary.QUEUE, vocabulary.DEFAULT_QUEUE, vocabulary.PREEMPTIBILITY):
        assert f"`{word.key}`" in TEXT
    for name in vocabulary.PRIORITY_CLASSES:
        assert f"`{name}`" in TEXT
    known = {field.key for field in fields().values()}
    named = set(re.findall(r"`(queues\.[a-z_]+)`", TEXT))
    assert named
    assert named <= known
    assert Settings().queues.status_every_s == 10
    assert Settings().queues.starving_after_s == 600


def test_what_it_says_of_gpu_models() -> None:
    assert gpu_model.matches("H100", "NVIDIA-H100-80GB-HBM3")
    assert gpu_model.matches("H100", "NVIDIA-H100-NVL")
    assert not gpu_model.matches("H100", "H1000")
