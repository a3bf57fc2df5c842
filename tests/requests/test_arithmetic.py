"""What a pod occupies: tables after Kubernetes' rules, and a naive play of the pod's life."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.arithmetic import asked_by, effective, is_counted, is_extended
from scheduler.pod import Container, PodFacts

GPU = "nvidia.com/gpu"
MIB = 1 << 20


def pod(
    *containers: Container,
    init: tuple[Container, ...] = (),
    overhead: Mapping[str, int] | None = None,
    requests: Mapping[str, int] | None = None,
    limits: Mapping[str, int] | None = None,
) -> PodFacts:
    return PodFacts(
        uid="u",
        namespace="n",
        name="p",
        containers=containers,
        init_containers=init,
        overhead=overhead or {},
        pod_requests=requests or {},
        pod_limits=limits or {},
    )


def asks(**requests: int) -> Container:
    return Container("c", requests)


def sidecar(**requests: int) -> Container:
    return Container("s", requests, restartable=True)


def test_app_containers_add_up() -> None:
    assert effective(pod(asks(cpu=100, memory=5), asks(cpu=50))) == {"cpu": 150, "memory": 5}


def test_init_containers_count_by_their_highest() -> None:
    facts = pod(asks(cpu=300, memory=10), init=(asks(cpu=200, memory=30), asks(cpu=500, memory=20)))
    assert effective(facts) == {"cpu": 500, "memory": 30}


def test_devices_count_as_everything_else() -> None:
    one, two = Container("a", limits={GPU: 1}), Container("b", limits={GPU: 2})
    assert effective(pod(one, one, init=(two,))) == {GPU: 2}
    assert effective(pod(one, init=(two,))) == {GPU: 2}
    assert effective(pod(one, two, init=(one,))) == {GPU: 3}


def test_sidecars_run_beside_the_apps_and_beside_later_init_containers() -> None:
    facts = pod(asks(cpu=100), init=(asks(cpu=90), sidecar(cpu=50), asks(cpu=120), sidecar(cpu=30)))
    # apps 100 + sidecars 80 = 180; the third starts beside the first sidecar: 170
    assert effective(facts) == {"cpu": 180}


def test_an_init_container_does_not_wait_for_sidecars_after_it() -> None:
    assert effective(pod(asks(cpu=1), init=(asks(cpu=100), sidecar(cpu=50)))) == {"cpu": 100}
    assert effective(pod(asks(cpu=1), init=(sidecar(cpu=50), asks(cpu=100)))) == {"cpu": 150}


def test_sidecars_alone_set_the_peak_of_a_pod_without_apps() -> None:
    assert effective(pod(init=(sidecar(cpu=50), sidecar(cpu=25)))) == {"cpu": 75}


def test_overhead_comes_on_top() -> None:
    facts = pod(asks(cpu=100), init=(asks(cpu=400),), overhead={"cpu": 10, "memory": 7})
    assert effective(facts) == {"cpu": 410, "memory": 7}


def test_a_limit_stands_in_for_a_missing_request_only() -> None:
    container = Container("c", {"cpu": 100}, {"cpu": 900, "memory": 7, GPU: 2})
    assert asked_by(container) == {"cpu": 100, "memory": 7, GPU: 2}
    assert effective(pod(container)) == {"cpu": 100, "memory": 7, GPU: 2}


def test_pod_level_requests_replace_cpu_memory_and_hugepages_only() -> None:
    container = Container("c", {"cpu": 100, "memory": 50, GPU: 1, "ephemeral-storage": 3}, {GPU: 1})
    level = {"cpu": 500, "memory": 10, "hugepages-2Mi": 4 * MIB, GPU: 9, "ephemeral-storage": 9}
    assert effective(pod(container, requests=level, overhead={"cpu": 1})) == {
        "cpu": 501,
        "memory": 10,
        "hugepages-2Mi": 4 * MIB,
        GPU: 1,
        "ephemeral-storage": 3,
    }


@pytest.mark.parametrize(
    ("containers", "requests", "limits", "expected"),
    [
        pytest.param({"cpu": 100}, {}, {"cpu": 900}, {"cpu": 100}, id="the containers' sum before the pod's limit"),
        pytest.param({}, {}, {"cpu": 900}, {"cpu": 900}, id="the pod's limit where no container asks"),
        pytest.param({"cpu": 100}, {"cpu": 300}, {"cpu": 900}, {"cpu": 300}, id="the pod's request before all"),
        pytest.param(
            {"hugepages-2Mi": MIB}, {}, {"hugepages-2Mi": 6 * MIB}, {"hugepages-2Mi": 6 * MIB}, id="hugepages"
        ),
        pytest.param({"cpu": 1}, {}, {GPU: 4}, {"cpu": 1}, id="devices have no pod level"),
    ],
)
def test_pod_level_limits(
    containers: dict[str, int], requests: dict[str, int], limits: dict[str, int], expected: dict[str, int]
) -> None:
    assert effective(pod(Container("c", containers), requests=requests, limits=limits)) == expected


@pytest.mark.parametrize(
    ("name", "counted", "extended"),
    [
        ("cpu", False, False),
        ("memory", False, False),
        ("pods", False, False),
        ("storage", False, False),
        (GPU, True, True),
        ("nvidia.com/mig-1g.10gb", True, True),
        ("hugepages-1Gi", True, False),
        ("attachable-volumes-csi-x", True, False),
        ("node.kubernetes.io/thing", True, False),
        ("requests.nvidia.com/gpu", False, False),
    ],
)
def test_names(name: str, counted: bool, extended: bool) -> None:
    assert (is_counted(name), is_extended(name)) == (counted, extended)


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", GPU]), st.integers(0, 1000), max_size=3)
APPS = st.builds(Container, name=st.just("c"), requests=AMOUNTS)
INITS = st.builds(Container, name=st.just("i"), requests=AMOUNTS, restartable=st.booleans())


@given(st.lists(APPS, max_size=4), st.lists(INITS, max_size=5), AMOUNTS)
def test_equals_the_highest_moment_of_the_pods_life(
    apps: list[Container], inits: list[Container], overhead: dict[str, int]
) -> None:
    """Starts the containers one after the other and looks at who runs at each moment."""
    moments: list[list[Container]] = []
    running: list[Container] = []
    for container in inits:
        moments.append([*running, container])
        if container.restartable:
            running.append(container)
    moments.append([*running, *apps])

    found = effective(pod(*apps, init=tuple(inits), overhead=overhead))

    for name in ("cpu", "memory", GPU):
        peak = max(sum(each.requests.get(name, 0) for each in moment) for moment in moments)
        assert found.get(name, 0) == peak + overhead.get(name, 0)
