"""What works but is not meant gets one warning of its kind."""

from __future__ import annotations

import pytest

from scheduler.pod import Container, PodFacts
from scheduler.problem import Warned
from scheduler.request import Demand, parse_request, warnings_of
from topology.vocabulary import DEFAULT_DEVICE_RESOURCES


def pod(annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None) -> PodFacts:
    return PodFacts(
        uid="u",
        namespace="test",
        name="p",
        annotations=annotations or {},
        labels=labels or {},
        containers=(Container("main"),),
    )


def kinds(facts: PodFacts) -> list[Warned]:
    return [warning.problem for warning in warnings_of(facts)]


@pytest.mark.parametrize(
    "facts",
    [
        pod(),
        pod({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}),
        pod({"gpu-memory": "200"}),
        pod(labels={"kai.scheduler/queue": "test"}),
    ],
)
def test_what_is_meant_gives_no_warning(facts: PodFacts) -> None:
    assert warnings_of(facts) == ()


@pytest.mark.parametrize("share", ["0.1", "0.2"])
def test_the_demo_pods_get_their_share_and_exactly_one_warning(share: str) -> None:
    facts = pod({"kai.scheduler/gpu-fraction": share}, {"kai.scheduler/queue": "test"})
    request = parse_request(facts, DEFAULT_DEVICE_RESOURCES)
    assert (request.demand, request.share_milli) == (Demand.SHARE, round(float(share) * 1000))
    (warning,) = warnings_of(facts)
    assert warning.problem == Warned.DEPRECATED_SPELLING
    assert "kai.scheduler/gpu-fraction is read as gpu-fraction: write gpu-fraction" in warning.text


def test_two_deprecated_spellings_give_one_warning() -> None:
    facts = pod({"kai.scheduler/gpu-fraction": "0.5", "kai.scheduler/gpu-memory": "100"})
    (warning,) = warnings_of(facts)
    assert "kai.scheduler/gpu-fraction" in warning.text
    assert "kai.scheduler/gpu-memory" in warning.text


def test_a_share_word_as_a_label_is_not_read_and_says_so() -> None:
    facts = pod(labels={"gpu-fraction": "0.5", "kai.scheduler/gpu-memory": "7"})
    assert parse_request(facts, DEFAULT_DEVICE_RESOURCES).demand is Demand.NONE
    (warning,) = warnings_of(facts)
    assert warning.problem == Warned.SHARE_WORD_AS_LABEL
    assert warning.text.startswith("gpu-fraction, kai.scheduler/gpu-memory is a label")


def test_a_label_beside_the_annotation_is_harmless() -> None:
    assert kinds(pod({"gpu-fraction": "0.5"}, {"gpu-fraction": "0.5"})) == []
    assert kinds(pod({"kai.scheduler/gpu-fraction": "0.5"}, {"gpu-fraction": "1"})) == [Warned.DEPRECATED_SPELLING]
