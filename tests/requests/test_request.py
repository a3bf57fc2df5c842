"""Requests in every form that users write, and what those get who contradict themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from scheduler.pod import Container, PodFacts
from scheduler.request import (
    MAX_AMOUNT,
    Demand,
    Problem,
    Request,
    RequestError,
    foreign_request,
    parse_request,
)
from topology.vocabulary import ALLOCATION, DEFAULT_DEVICE_RESOURCES

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"
GIB = 1 << 30


def container(name: str = "main", **resources: int) -> Container:
    """A container with cpu and memory requests."""
    return Container(name, requests=resources)


def with_limits(limits: Mapping[str, int], name: str = "main") -> Container:
    return Container(name, limits=limits)


def pod(*containers: Container, annotations: Mapping[str, str] | None = None, **facts: Any) -> PodFacts:
    return PodFacts(
        uid="u",
        namespace="team",
        name="p",
        annotations=annotations or {},
        containers=containers or (container(),),
        **facts,
    )


def parse(facts: PodFacts) -> Request:
    return parse_request(facts, DEFAULT_DEVICE_RESOURCES)


# -- forms that are understood -------------------------------------------------------------------------------------


def test_a_pod_without_devices() -> None:
    facts = pod(Container("main", {"cpu": 500, "memory": GIB, "ephemeral-storage": 7, "example.com/nic": 0}))
    assert parse(facts) == Request(500, GIB, 7)


@pytest.mark.parametrize("resource", DEFAULT_DEVICE_RESOURCES)
def test_whole_devices_by_any_configured_resource(resource: str) -> None:
    assert parse(pod(with_limits({resource: 2}))) == Request(
        0, 0, 0, ((resource, 2),), Demand.WHOLE, device_resource=resource, device_count=2
    )


def test_a_resource_that_is_not_configured_is_only_counted() -> None:
    assert parse(pod(with_limits({"example.com/tpu": 2}))) == Request(0, 0, 0, (("example.com/tpu", 2),))


def test_whole_devices_by_equal_request_and_limit() -> None:
    assert parse(pod(Container("main", {GPU: 1}, {GPU: 1}))).device_count == 1


def test_whole_devices_of_containers_add_up_and_init_containers_share_them() -> None:
    facts = pod(
        with_limits({GPU: 1}, "a"), with_limits({GPU: 1}, "b"), init_containers=(with_limits({GPU: 3}, "prepare"),)
    )
    assert parse(facts).device_count == 3


def test_zero_devices_are_none() -> None:
    assert parse(pod(with_limits({GPU: 0}))) == Request(0, 0, 0)


def test_mig_instances_and_other_resources_are_counted_sorted() -> None:
    request = parse(pod(with_limits({"rdma/hca": 1, MIG: 2, "hugepages-2Mi": 2 << 20})))
    assert request.demand is Demand.NONE
    assert request.extended == (("hugepages-2Mi", 2 << 20), (MIG, 2), ("rdma/hca", 1))


def test_a_fraction() -> None:
    facts = pod(container(cpu=100), annotations={"gpu-fraction": "0.29"})
    assert parse(facts) == Request(100, 0, 0, demand=Demand.SHARE, device_count=1, share_milli=290, container="main")


@pytest.mark.parametrize(
    ("text", "milli"), [("0.5", 500), ("0.57", 570), ("0.58", 580), ("0.001", 1), ("0.999", 999), (".5", 500)]
)
def test_fractions_are_exact_decimals(text: str, milli: int) -> None:
    assert parse(pod(annotations={"gpu-fraction": text})).share_milli == milli


def test_memory() -> None:
    request = parse(pod(annotations={"gpu-memory": "20000"}))
    assert (request.demand, request.share_milli, request.share_memory_mib) == (Demand.SHARE, 0, 20000)


def test_a_share_on_several_devices() -> None:
    request = parse(pod(annotations={"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}))
    assert (request.device_count, request.share_milli) == (2, 500)


def test_a_share_for_a_named_container_and_for_an_init_container() -> None:
    facts = pod(
        container("web"),
        container("model"),
        init_containers=(container("prepare"),),
        annotations={"gpu-memory": "100", "gpu-fraction-container-name": "model"},
    )
    assert parse(facts).container == "model"
    assert parse(pod(container("web"), annotations={"gpu-memory": "100"})).container == "web"
    named = {"gpu-memory": "100", "gpu-fraction-container-name": "prepare"}
    assert (
        parse(pod(container("web"), init_containers=(container("prepare"),), annotations=named)).container == "prepare"
    )


def test_a_deprecated_spelling_means_the_same() -> None:
    old = parse(pod(annotations={"kai.scheduler/gpu-fraction": "0.5"}))
    assert old == parse(pod(annotations={"gpu-fraction": "0.5"}))
    assert old == parse(pod(annotations={"gpu-fraction": "0.5", "kai.scheduler/gpu-fraction": "0.5"}))


def test_a_share_beside_zero_whole_devices_is_a_share() -> None:
    assert parse(pod(with_limits({GPU: 0}), annotations={"gpu-fraction": "0.5"})).demand is Demand.SHARE


def test_equal_requests_are_one_key() -> None:
    one = parse(pod(with_limits({"b.com/x": 1, "a.com/x": 2})))
    other = parse(pod(with_limits({"a.com/x": 2, "b.com/x": 1})))
    assert one == other
    assert hash(one) == hash(other)


# -- contradictions ------------------------------------------------------------------------------------------------

FRACTION = {"gpu-fraction": "0.5"}
MEMORY = {"gpu-memory": "2000"}

CONTRADICTIONS: list[tuple[Problem, PodFacts, str]] = [
    (Problem.EMPTY_VALUE, pod(annotations={"gpu-fraction": ""}), "gpu-fraction is empty"),
    (Problem.EMPTY_VALUE, pod(annotations={"gpu-memory": " "}), "gpu-memory is empty"),
    (Problem.EMPTY_VALUE, pod(annotations=FRACTION | {"gpu-fraction-container-name": ""}), "is empty"),
    (
        Problem.SPELLINGS_DIFFER,
        pod(annotations=FRACTION | {"kai.scheduler/gpu-fraction": "0.6"}),
        "keep only gpu-fraction",
    ),
    (Problem.BAD_FRACTION, pod(annotations={"gpu-fraction": "half"}), '"half" is not a number'),
    (Problem.BAD_FRACTION, pod(annotations={"gpu-fraction": "0,5"}), 'such as "0.5"'),
    (Problem.BAD_FRACTION, pod(annotations={"gpu-fraction": "500m"}), "is not a number"),
    (Problem.BAD_FRACTION, pod(annotations={"gpu-fraction": "nan"}), "is not a number"),
    (Problem.BAD_FRACTION, pod(annotations={"gpu-fraction": "٠.٥"}), "is not a number"),
    (Problem.FRACTION_NOT_POSITIVE, pod(annotations={"gpu-fraction": "0"}), "asks for nothing"),
    (Problem.FRACTION_NOT_POSITIVE, pod(annotations={"gpu-fraction": "-0.5"}), "between 0 and 1"),
    (Problem.FRACTION_NOT_POSITIVE, pod(annotations={"gpu-fraction": "0.0000"}), "asks for nothing"),
    (Problem.FRACTION_NOT_BELOW_ONE, pod(annotations={"gpu-fraction": "1"}), "ask for nvidia.com/gpu: 1 under"),
    (Problem.FRACTION_NOT_BELOW_ONE, pod(annotations={"gpu-fraction": "1.000"}), "ask for nvidia.com/gpu: 1 under"),
    (Problem.FRACTION_NOT_BELOW_ONE, pod(annotations={"gpu-fraction": "1.5"}), "ask for nvidia.com/gpu: 2 under"),
    (Problem.FRACTION_NOT_BELOW_ONE, pod(annotations={"gpu-fraction": "9" * 500}), "gpu-fraction-num-devices"),
    (Problem.FRACTION_TOO_FINE, pod(annotations={"gpu-fraction": "0.3333"}), "at most three decimals"),
    (Problem.BAD_MEMORY, pod(annotations={"gpu-memory": "lots"}), 'such as "20000"'),
    (Problem.BAD_MEMORY, pod(annotations={"gpu-memory": "20Gi"}), 'such as "20480"'),
    (Problem.BAD_MEMORY, pod(annotations={"gpu-memory": "1500M"}), 'such as "1431"'),
    (Problem.BAD_MEMORY, pod(annotations={"gpu-memory": "2000.5"}), "is not an integer"),
    (Problem.MEMORY_NOT_POSITIVE, pod(annotations={"gpu-memory": "0"}), "positive number of MiB"),
    (Problem.MEMORY_NOT_POSITIVE, pod(annotations={"gpu-memory": "-5"}), "positive number of MiB"),
    (Problem.AMOUNT_TOO_LARGE, pod(annotations={"gpu-memory": "9" * 30}), "MiB, not bytes"),
    (Problem.BAD_NUM_DEVICES, pod(annotations=FRACTION | {"gpu-fraction-num-devices": "0"}), "from 1 to"),
    (Problem.BAD_NUM_DEVICES, pod(annotations=FRACTION | {"gpu-fraction-num-devices": "-1"}), "from 1 to"),
    (Problem.BAD_NUM_DEVICES, pod(annotations=FRACTION | {"gpu-fraction-num-devices": "two"}), '"two"'),
    (Problem.BAD_NUM_DEVICES, pod(annotations=FRACTION | {"gpu-fraction-num-devices": "1.5"}), '"1.5"'),
    (Problem.BAD_NUM_DEVICES, pod(annotations=FRACTION | {"gpu-fraction-num-devices": "9" * 40}), "from 1 to"),
    (
        Problem.UNKNOWN_CONTAINER,
        pod(container("web"), container("db"), annotations=FRACTION | {"gpu-fraction-container-name": "x"}),
        "write one of web, db",
    ),
    (Problem.FRACTION_WITH_MEMORY, pod(annotations=FRACTION | MEMORY), "keep one of the two"),
    (
        Problem.FRACTION_WITH_WHOLE_DEVICES,
        pod(with_limits({GPU: 1}, "train"), annotations=FRACTION),
        "nvidia.com/gpu: 1 in container train",
    ),
    (
        Problem.FRACTION_WITH_WHOLE_DEVICES,
        pod(init_containers=(with_limits({GPU: 2}, "prepare"),), annotations=FRACTION),
        "nvidia.com/gpu: 2 in container prepare",
    ),
    (
        Problem.FRACTION_WITH_WHOLE_DEVICES,
        pod(with_limits({"amd.com/gpu": 1}), annotations={"kai.scheduler/gpu-fraction": "0.5"}),
        "remove amd.com/gpu to get the share",
    ),
    (
        Problem.MEMORY_WITH_WHOLE_DEVICES,
        pod(with_limits({GPU: 1}), annotations=MEMORY),
        'gpu-memory "2000" and for whole devices',
    ),
    (Problem.SHARE_WITH_MIG, pod(with_limits({MIG: 1}), annotations=FRACTION), f"remove {MIG} to get"),
    (Problem.SHARE_WITH_MIG, pod(with_limits({MIG: 1}), annotations=MEMORY), "MIG instances"),
    (
        Problem.NUM_DEVICES_WITHOUT_SHARE,
        pod(annotations={"gpu-fraction-num-devices": "2"}),
        "add gpu-fraction or gpu-memory",
    ),
    (
        Problem.NUM_DEVICES_WITHOUT_SHARE,
        pod(with_limits({GPU: 2}), annotations={"gpu-fraction-num-devices": "2"}),
        "or remove it",
    ),
    (
        Problem.CONTAINER_WITHOUT_SHARE,
        pod(annotations={"gpu-fraction-container-name": "main"}),
        "add gpu-fraction or gpu-memory",
    ),
    (Problem.TWO_DEVICE_RESOURCES, pod(with_limits({GPU: 1, "amd.com/gpu": 1})), "nvidia.com/gpu and amd.com/gpu"),
    (Problem.MIG_ANNOTATION, pod(annotations={"nvidia.com/mig-1g.5gb": "1"}), "under resources.limits"),
    (
        Problem.TWO_DEVICE_RESOURCES,
        pod(with_limits({GPU: 1}), init_containers=(with_limits({"gpu.intel.com/xe": 1}, "i"),)),
        "keep one of them",
    ),
    (Problem.NEGATIVE_AMOUNT, pod(with_limits({GPU: -1})), "write an amount of 0 or more"),
    (Problem.NEGATIVE_AMOUNT, pod(container(cpu=-5)), "-5 of cpu"),
    (Problem.NEGATIVE_AMOUNT, pod(overhead={"memory": -5}), "the pod asks for -5 of memory"),
    (Problem.AMOUNT_TOO_LARGE, pod(container(memory=(1 << 63) - 1)), "write a smaller amount"),
    (
        Problem.REQUEST_WITHOUT_LIMIT,
        pod(Container("main", {GPU: 1})),
        "container main requests nvidia.com/gpu: 1 without a limit: set nvidia.com/gpu: 1 under resources.limits",
    ),
    (
        Problem.REQUEST_WITHOUT_LIMIT,
        pod(init_containers=(Container("prepare", {MIG: 1}),)),
        "container prepare requests",
    ),
    (Problem.REQUEST_NOT_LIMIT, pod(Container("main", {GPU: 1}, {GPU: 2})), "make them equal or remove the request"),
]


@pytest.mark.parametrize(("problem", "facts", "text"), CONTRADICTIONS)
def test_a_contradiction_says_what_to_change(problem: Problem, facts: PodFacts, text: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse(facts)
    assert caught.value.problem == problem
    assert text in str(caught.value)
    assert caught.value.details
    assert all(isinstance(value, str) for value in caught.value.details.values())


def test_every_problem_has_a_case() -> None:
    # whether the container's environment was prepared is no matter of the request itself
    assert {problem for problem, _, _ in CONTRADICTIONS} == set(Problem) - {Problem.NO_DEVICE_VARIABLE}


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("word", "beside"),
    [("gpu-fraction", {}), ("gpu-memory", {})]
    + [(word, FRACTION) for word in ("gpu-memory", "gpu-fraction-num-devices", "gpu-fraction-container-name")]
    + [("kai.scheduler/gpu-fraction", FRACTION)],
)
@pytest.mark.parametrize("text", ["x" * 200_000, "0" * 200_000 + "x", "9" * 200_000, "." * 200_000])
def test_answers_stay_short_and_quick_whatever_was_written(word: str, beside: dict[str, str], text: str) -> None:
    many = [container(f"container-{number}") for number in range(50)]
    with pytest.raises(RequestError) as caught:
        parse(pod(*many, annotations=beside | {word: text}))
    assert len(str(caught.value)) < 500
    assert all(len(value) <= 256 for value in caught.value.details.values())


def test_the_text_names_the_configured_resource() -> None:
    with pytest.raises(RequestError, match=r"ask for amd\.com/gpu: 1"):
        parse_request(pod(annotations={"gpu-fraction": "1"}), ("amd.com/gpu",))


def test_a_share_leaves_other_resources_alone() -> None:
    request = parse(pod(with_limits({"rdma/hca": 1}), annotations=FRACTION))
    assert request.demand is Demand.SHARE
    assert request.extended == (("rdma/hca", 1),)


# -- pods that are there whatever we think -------------------------------------------------------------------------


def foreign(facts: PodFacts) -> Request:
    return foreign_request(facts, DEFAULT_DEVICE_RESOURCES)


def test_share_words_of_foreign_pods_mean_nothing() -> None:
    assert foreign(pod(container(cpu=5), annotations=FRACTION)) == Request(5, 0, 0)
    assert foreign(pod(container(cpu=5), annotations=FRACTION, node_name="n")) == Request(5, 0, 0)


def test_an_allocation_counts_on_bound_pods_only() -> None:
    ours = FRACTION | {ALLOCATION: "{}"}
    assert foreign(pod(annotations=ours)).demand is Demand.NONE
    assert foreign(pod(annotations=ours, node_name="n")) == parse(pod(annotations=FRACTION))


def test_foreign_pods_hold_whole_devices_even_beside_a_share() -> None:
    facts = pod(with_limits({GPU: 2}), annotations=FRACTION | {ALLOCATION: "{}"}, node_name="n")
    request = foreign(facts)
    assert (request.demand, request.device_resource, request.device_count) == (Demand.WHOLE, GPU, 2)


def test_a_foreign_pod_with_two_device_resources_counts_both() -> None:
    request = foreign(pod(with_limits({GPU: 1, "amd.com/gpu": 3})))
    assert (request.device_resource, request.device_count) == (GPU, 1)
    assert request.extended == (("amd.com/gpu", 3), (GPU, 1))


@pytest.mark.parametrize("facts", [facts for _, facts, _ in CONTRADICTIONS])
def test_no_contradiction_of_a_foreign_pod_raises(facts: PodFacts) -> None:
    request = foreign(facts)
    assert 0 <= request.cpu_milli <= MAX_AMOUNT
    assert 0 <= request.memory_bytes <= MAX_AMOUNT
    assert all(0 < amount <= MAX_AMOUNT for _, amount in request.extended)


# -- whatever is written -------------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        "gpu-fraction",
        "kai.scheduler/gpu-fraction",
        "gpu-memory",
        "gpu-fraction-num-devices",
        "gpu-fraction-container-name",
    ]
)
CHARACTERS = st.lists(st.sampled_from(" 0123456789.-+eGinf٥x\n"), max_size=8).map("".join)
VALUES = CHARACTERS | st.sampled_from(["0.5", "1", "0", "2000", "main", "2", "-1", "1e3", "0.1234"])
RESOURCES = st.dictionaries(
    st.sampled_from(["cpu", "memory", GPU, "amd.com/gpu", MIG, "hugepages-2Mi"]), st.integers(-2, 1 << 63), max_size=3
)


@given(
    st.dictionaries(WORDS, VALUES, max_size=3),
    st.lists(st.builds(Container, name=st.just("main"), requests=RESOURCES, limits=RESOURCES), max_size=2),
    st.booleans(),
)
def test_every_pod_gives_a_sound_request_or_a_request_error(
    annotations: dict[str, str], containers: list[Container], bound: bool
) -> None:
    facts = pod(*containers, annotations=annotations | {ALLOCATION: "x"}, node_name="n" if bound else None)
    sound(foreign(facts))
    try:
        sound(parse(facts))
    except RequestError as err:
        event(err.problem)


def sound(request: Request) -> None:
    match request.demand:
        case Demand.NONE:
            assert request.device_count == 0
        case Demand.WHOLE:
            assert dict(request.extended)[request.device_resource] == request.device_count >= 1
        case Demand.SHARE:
            assert request.device_count >= 1
            assert (request.share_milli > 0) != (request.share_memory_mib > 0)
            assert request.share_milli < 1000
    if request.demand is not Demand.SHARE:
        assert (request.share_milli, request.share_memory_mib, request.container) == (0, 0, "")
