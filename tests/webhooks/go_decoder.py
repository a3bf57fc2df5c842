"""Whether Go's decoder would take an answer: the types of k8s.io/kube-scheduler/extender/v1, spelt out."""

from __future__ import annotations

from typing import Any


def check_answer(path: str, answer: Any) -> None:
    """Raises AssertionError when kube-scheduler could not read this answer to this verb."""
    checks = {"filter": _filter, "prioritize": _prioritize, "preempt": _preempt, "bind": _bind}
    checks[path.rpartition("/")[2]](answer)


def is_trouble(path: str, answer: Any) -> bool:
    """Whether the answer is the verb's way of saying that something is wrong."""
    match path.rpartition("/")[2]:
        case "filter" | "bind":
            return bool(answer["Error"])
        case "prioritize":
            return bool(answer == [])
        case _:
            return bool(answer == {"NodeNameToMetaVictims": {}})


def _filter(answer: Any) -> None:
    assert list(answer) == ["Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"]
    assert answer["Nodes"] is None or isinstance(answer["Nodes"]["items"], list)
    assert answer["NodeNames"] is None or all(isinstance(name, str) for name in answer["NodeNames"])
    for failed in (answer["FailedNodes"], answer["FailedAndUnresolvableNodes"]):
        assert all(isinstance(reason, str) for reason in failed.values())
    assert isinstance(answer["Error"], str)
    if answer["Error"]:
        # an error beside a list would be read as the error only, and an empty list as "no node fits"
        assert answer["Nodes"] is answer["NodeNames"] is None
    else:
        assert answer["Nodes"] is not None or answer["NodeNames"] is not None


def _prioritize(answer: Any) -> None:
    assert isinstance(answer, list)
    for entry in answer:
        assert list(entry) == ["Host", "Score"]
        assert isinstance(entry["Host"], str)
        assert type(entry["Score"]) is int
        assert -(1 << 63) <= entry["Score"] < 1 << 63


def _preempt(answer: Any) -> None:
    assert list(answer) == ["NodeNameToMetaVictims"]
    for victims in answer["NodeNameToMetaVictims"].values():
        assert list(victims) == ["Pods", "NumPDBViolations"]
        assert all(list(pod) == ["UID"] and isinstance(pod["UID"], str) for pod in victims["Pods"])
        assert type(victims["NumPDBViolations"]) is int
        assert 0 <= victims["NumPDBViolations"] < 1 << 63


def _bind(answer: Any) -> None:
    assert list(answer) == ["Error"]
    assert isinstance(answer["Error"], str)
