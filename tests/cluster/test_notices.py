from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from extender_api import text
from extender_api.cluster.client import ClientSettings, ClusterClient
from extender_api.cluster.event import camel, clipped, event_body
from extender_api.cluster.kube_actuator import KubeActuator
from extender_api.cluster.notices import Notices, NoticeSettings, TokenBucket
from scheduler.instruction import Nominate, Release, Tell, Warn
from scheduler.reason import Code, Reason
from tests.cluster.conftest import Connect
from tests.cluster.fakeapi import FakeApi, answer, drop, hang
from tests.cluster.objects import GATE, gated_pod, pod
from tests.cluster.waiting import running, until

SHORT = Reason(Code.INSUFFICIENT_GPU_SHARE, {"need_milli": 500, "best_milli": 300})
INVALID = Reason(Code.INVALID_REQUEST, {"text": "gpu-fraction: 2 is too much"})


def now_ms() -> int:
    return 1_767_225_600_123


@pytest.fixture
async def client(connect: Connect) -> ClusterClient:
    return await connect(ClientSettings(timeout_s=0.5))


def notices(client: ClusterClient, **settings: Any) -> Notices:
    return Notices(client, now_ms=now_ms, settings=NoticeSettings(instance="host-a", **settings))


def tell(name: str = "p", reason: Reason = SHORT, *, gated: bool = True) -> Tell:
    return Tell(f"uid-{name}", "default", name, reason, gated)


def events(api: FakeApi) -> list[dict[str, Any]]:
    return list(api.collection("events").objects.values())


def condition(api: FakeApi, name: str = "p", index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = api.collection("pods").objects[f"default/{name}"]["status"]["conditions"][index]
    return found


async def work_off(office: Notices) -> None:
    async with running(office.run()):
        await until(lambda: len(office) == 0)
        await asyncio.sleep(0.05)


async def test_a_reason_is_a_message_and_one_event(api: FakeApi, client: ClusterClient) -> None:
    await api.put("pods", gated_pod())
    office = notices(client)
    office.submit(tell())
    async with running(office.run()):
        await until(lambda: bool(events(api)))
    words = text.sentence(SHORT)
    assert condition(api) == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": words,
    }
    (event,) = events(api)
    assert event["metadata"].pop("name").startswith("p.")
    assert event["metadata"].pop("resourceVersion")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.123000Z",
        "type": "Normal",
        "reason": "InsufficientGpuShare",
        "action": "Planning",
        "note": words,
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "p", "uid": "uid-p"},
        "reportingController": "tangram.scheduler",
        "reportingInstance": "host-a",
    }
    assert len(api.calls) == 2


async def test_a_bad_request_is_a_warning(api: FakeApi, client: ClusterClient) -> None:
    await api.put("pods", gated_pod())
    office = notices(client)
    office.submit(tell(reason=INVALID))
    await work_off(office)
    assert [(event["type"], event["note"]) for event in events(api)] == [("Warning", "gpu-fraction: 2 is too much")]


async def test_a_warning(api: FakeApi, client: ClusterClient) -> None:
    office = notices(client)
    office.submit(Warn("uid-p", "default", "p", "DEPRECATED_KEY", "write gpu-fraction"))
    await work_off(office)
    (event,) = events(api)
    assert (event["type"], event["reason"], event["note"]) == ("Warning", "DeprecatedKey", "write gpu-fraction")
    assert len(api.calls) == 1


class TestWhoIsToldWhat:
    async def test_without_our_gate_only_an_event(self, api: FakeApi, client: ClusterClient) -> None:
        await api.put("pods", gated_pod())
        office = notices(client)
        office.submit(tell(gated=False))
        await work_off(office)
        assert [call.method for call in api.calls] == ["POST"]

    async def test_a_pod_released_meanwhile_is_left_alone(self, api: FakeApi, client: ClusterClient) -> None:
        waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
        await api.put("pods", pod(status={"conditions": [waiting]}))
        office = notices(client)
        office.submit(tell())
        await work_off(office)
        assert condition(api) == waiting
        assert events(api) == []

    @pytest.mark.parametrize("found", [None, pod(uid="another")])
    async def test_a_pod_that_is_gone(self, api: FakeApi, client: ClusterClient, found: Any) -> None:
        if found is not None:
            await api.put("pods", found)
        office = notices(client)
        office.submit(tell())
        await work_off(office)
        assert events(api) == []

    async def test_the_condition_may_stand_elsewhere(self, api: FakeApi, client: ClusterClient) -> None:
        item = gated_pod()
        item["status"]["conditions"].insert(0, {"type": "example.com/Ready", "status": "False"})
        await api.put("pods", item)
        office = notices(client)
        office.submit(tell())
        await work_off(office)
        assert condition(api, index=1)["message"] == text.sentence(SHORT)
        assert len(events(api)) == 1

    async def test_without_the_condition_the_event_must_do(self, api: FakeApi, client: ClusterClient) -> None:
        item = gated_pod()
        item["status"]["conditions"] = []
        await api.put("pods", item)
        office = notices(client)
        office.submit(tell())
        await work_off(office)
        assert api.collection("pods").objects["default/p"]["status"]["conditions"] == []
        assert len(events(api)) == 1


class TestTheQueue:
    async def test_only_the_newest_reason_of_a_pod_is_told(self, api: FakeApi, client: ClusterClient) -> None:
        await api.put("pods", gated_pod())
        office = notices(client)
        office.submit(tell(reason=Reason(Code.INSUFFICIENT_CPU)))
        office.submit(Warn("uid-p", "default", "p", "A", "a"))
        office.submit(Warn("uid-p", "default", "p", "B", "b"))
        office.submit(tell(reason=Reason(Code.INSUFFICIENT_MEMORY)))
        assert len(office) == 3
        await work_off(office)
        assert [event["reason"] for event in events(api)] == ["InsufficientMemory", "A", "B"]

    async def test_a_full_queue_loses_the_oldest_and_counts(self, api: FakeApi, client: ClusterClient) -> None:
        office = notices(client, waiting=2)
        for name in "abcd":
            office.submit(tell(name, gated=False))
        assert (len(office), office.dropped) == (2, 2)
        await work_off(office)
        assert [event["regarding"]["name"] for event in events(api)] == ["c", "d"]

    async def test_the_rate_is_bounded(self, api: FakeApi, client: ClusterClient) -> None:
        office = notices(client, per_second=20.0, burst=3)
        loop = asyncio.get_running_loop()
        for number in range(9):
            office.submit(tell(f"p{number}", gated=False))
        started = loop.time()
        async with running(office.run()):
            await until(lambda: len(events(api)) == 3)
            await until(lambda: len(events(api)) == 9)
        assert loop.time() - started > 0.25

    async def test_the_room_is_for_pods_however_much_there_is_to_say_of_each(self, client: ClusterClient) -> None:
        office = notices(client, waiting=2)
        for name in "ab":
            office.submit(tell(name, gated=False))
            for problem in "123":
                office.submit(Warn(f"uid-{name}", "default", name, problem, "a"))
        assert (len(office), office.dropped) == (8, 0)
        office.submit(tell("c", gated=False))
        assert (len(office), office.dropped) == (5, 4)

    async def test_what_is_refused_for_good_is_lost_and_counted(self, api: FakeApi, client: ClusterClient) -> None:
        office = notices(client)
        api.fail("POST", "events", answer(403, "namespace is terminating"))
        office.submit(tell("a", gated=False))
        office.submit(tell("b", gated=False))
        await work_off(office)
        assert [event["regarding"]["name"] for event in events(api)] == ["b"]
        assert office.failed == 1

    async def test_a_message_that_is_refused_for_good_leaves_the_event(
        self, api: FakeApi, client: ClusterClient
    ) -> None:
        await api.put("pods", gated_pod())
        office = notices(client)
        api.fail("PATCH", "status", answer(403, "not allowed"))
        office.submit(tell())
        await work_off(office)
        assert (len(events(api)), office.failed) == (1, 1)


class TestTryingAgain:
    @pytest.mark.parametrize("fault", [answer(500), answer(429), hang, drop])
    async def test_others_go_first_and_nothing_is_lost(self, api: FakeApi, client: ClusterClient, fault: Any) -> None:
        office = notices(client, backoff_first_s=0.01)
        api.fail("POST", "events", fault)
        office.submit(tell("a", gated=False))
        office.submit(tell("b", gated=False))
        await work_off(office)
        assert [event["regarding"]["name"] for event in events(api)] == ["b", "a"]
        assert office.failed == 0

    @pytest.mark.parametrize("fault", [answer(500), answer(409)])
    async def test_a_message_as_well(self, api: FakeApi, client: ClusterClient, fault: Any) -> None:
        await api.put("pods", gated_pod())
        office = notices(client, backoff_first_s=0.01)
        api.fail("PATCH", "status", fault)
        office.submit(tell())
        await work_off(office)
        assert condition(api)["message"] == text.sentence(SHORT)
        assert len(events(api)) == 1

    async def test_it_ends_some_time(self, api: FakeApi, client: ClusterClient) -> None:
        office = notices(client, backoff_first_s=0.01, attempts=3)
        api.fail("POST", "events", answer(500), times=4)
        office.submit(tell("a", gated=False))
        await work_off(office)
        assert (api.count("POST", "events"), office.failed) == (3, 1)
        office.submit(tell("a", gated=False))
        await work_off(office)
        assert (len(events(api)), office.failed) == (1, 1), "the next one has all its tries again"

    @pytest.mark.parametrize("when", ["it rests", "it is under way"])
    @pytest.mark.parametrize("what", ["replaced", "withdrawn", "cleared"])
    async def test_not_what_is_no_longer_true(self, api: FakeApi, client: ClusterClient, when: str, what: str) -> None:
        office = notices(client, backoff_first_s=0.1)
        arrived, go_on = asyncio.Event(), asyncio.Event()

        async def slow(request: web.Request) -> web.StreamResponse:
            arrived.set()
            await go_on.wait()
            return await answer(500)(request)

        def news() -> None:
            if what == "replaced":
                office.submit(tell("a", Reason(Code.INSUFFICIENT_CPU), gated=False))
            elif what == "withdrawn":
                office.withdraw("uid-a")
            else:
                office.clear()

        api.fail("POST", "events", slow)
        office.submit(tell("a", gated=False))
        async with running(office.run()):
            await arrived.wait()
            if when == "it rests":
                go_on.set()
                await until(lambda: bool(office._resting))
                news()
            else:
                news()
                go_on.set()
            await asyncio.sleep(0.3)
            assert len(office) == 0
        assert [event["reason"] for event in events(api)] == (["InsufficientCpu"] if what == "replaced" else [])
        assert office.failed == 0


async def test_a_bucket_fills_up_to_its_brim() -> None:
    bucket = TokenBucket(per_second=50.0, burst=2)
    loop = asyncio.get_running_loop()
    await asyncio.sleep(0.2)
    started = loop.time()
    for _ in range(4):
        await bucket.take()
    assert loop.time() - started > 0.03


class TestEvents:
    @pytest.mark.parametrize(
        ("code", "shown"),
        [("INSUFFICIENT_GPU_SHARE", "InsufficientGpuShare"), ("NO_NODES", "NoNodes"), ("A", "A")],
    )
    def test_reasons(self, code: str, shown: str) -> None:
        assert camel(code) == shown

    @pytest.mark.parametrize("note", ["", "short", "x" * 1024])
    def test_a_note_that_fits_stays(self, note: str) -> None:
        assert clipped(note) == note

    @pytest.mark.parametrize("note", ["x" * 1025, "é" * 600, "🧩" * 300, "a" + "🧩" * 300])
    def test_a_long_note_is_cut_between_characters(self, note: str) -> None:
        cut = clipped(note)
        assert 1015 < len(cut.encode()) <= 1024
        assert cut.endswith("…")
        assert note.startswith(cut[:-1])

    def test_names_are_valid_and_differ(self) -> None:
        def name(pod: str) -> str:
            body = event_body(
                namespace="x", pod=pod, uid="u", reason="A", note="", warning=False, action="A", instance="i", now_ms=0
            )
            return str(body["metadata"]["name"])

        assert name("p") != name("p")
        long = name("a" * 219 + "-." + "b" * 30)
        assert len(long) <= 253
        assert "-." not in long


class TestTheActuator:
    async def test_each_instruction_goes_its_way(self, api: FakeApi, client: ClusterClient) -> None:
        ends: list[tuple[str, bool, int]] = []
        actuator = KubeActuator(client, on_result=lambda *end: ends.append(end), now_ms=now_ms)
        for name in ("released", "told"):
            await api.put("pods", gated_pod(name))
        await api.put("pods", pod("nominated"))
        async with running(actuator.run()):
            actuator.submit(Release("uid-released", "default", "released", "n1", (GATE,)))
            actuator.submit(Nominate("uid-nominated", "default", "nominated", "n2"))
            actuator.submit(tell("told"))
            actuator.submit(Warn("uid-told", "default", "told", "A", "a"))
            await until(lambda: len(ends) == 2 and len(events(api)) == 2)
        assert sorted(ends) == [("uid-nominated", True, 200), ("uid-released", True, 200)]
        pods = api.collection("pods").objects
        assert pods["default/released"]["spec"]["schedulingGates"] == []
        assert pods["default/nominated"]["status"]["nominatedNodeName"] == "n2"

    async def test_a_pod_that_is_released_is_no_longer_told_why_it_waits(
        self, api: FakeApi, client: ClusterClient
    ) -> None:
        actuator = KubeActuator(client, on_result=lambda *_: None, now_ms=now_ms)
        await api.put("pods", gated_pod())
        actuator.submit(tell())
        actuator.submit(Release("uid-p", "default", "p", "n1", (GATE,)))
        async with running(actuator.run()):
            await until(lambda: len(actuator.lanes) == 0)
            await asyncio.sleep(0.05)
        assert events(api) == []
        assert len(api.calls) == 1

    async def test_standing_down_forgets_all_that_waits(self, api: FakeApi, client: ClusterClient) -> None:
        actuator = KubeActuator(client, on_result=lambda *_: None, now_ms=now_ms)
        actuator.submit(tell())
        actuator.submit(Release("uid-p", "default", "p", "n1", (GATE,)))
        actuator.stand_down()
        async with running(actuator.run()):
            await until(lambda: len(actuator.lanes) == 0)
            await asyncio.sleep(0.05)
        assert api.calls == []
