"""Three teams on 64 devices, random arrivals of short pods, everything judged by what the API shows."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pytest

from queues.amounts import UNLIMITED
from queues.spec import Terms
from tests.controlplane.fake_nodes import RUN_SECONDS, FakeNodes
from tests.controlplane.kube import Kube
from tests.controlplane.node_models import A100, gpu_node
from tests.controlplane.resources import PODS, Object
from tests.controlplane.tangram_process import TangramProcess
from tests.controlplane.waiting import eventually
from tests.e2e.conftest import Measured
from tests.e2e.ops import Ops
from tests.e2e.pods import whole, within
from tests.e2e.queues import LABEL, QUEUES, gpus, queue, queues
from tests.queues import naive
from tests.queues.claims import Claim

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("kube_scheduler")]

NODES: Final = 64
TEAMS: Final = {"red": (16, 1, None), "blue": (8, 2, None), "green": (0, 1, 8)}
"""Quota, weight and limit."""
LONGEST_S: Final = 5.0
BACKLOG: Final = 40
WINDOWS: Final = 6
"""So many times five seconds are looked at before a machine is too busy for this test."""


@dataclass
class Sightings:
    """Who holds a device, by what the watch of pods has shown so far: released or bound, and not ended."""

    holding: dict[str, str] = field(default_factory=dict)
    bound: dict[str, str] = field(default_factory=dict)
    waiting: Counter[str] = field(default_factory=Counter)
    most_bound: Counter[str] = field(default_factory=Counter)
    started: Counter[str] = field(default_factory=Counter)
    _waiting: dict[str, str] = field(default_factory=dict)

    def see(self, kind: str, pod: Object) -> None:
        uid, team = pod["metadata"]["uid"], pod["metadata"]["labels"][LABEL]
        ended = kind == "DELETED" or pod["status"]["phase"] in ("Succeeded", "Failed")
        gated = bool(pod["spec"].get("schedulingGates"))
        _keep(self._waiting, uid, team, not ended and gated)
        _keep(self.holding, uid, team, not ended and not gated)
        if not ended and "nodeName" in pod["spec"] and uid not in self.bound:
            self.started[team] += 1
        _keep(self.bound, uid, team, not ended and "nodeName" in pod["spec"])
        self.waiting = Counter(self._waiting.values())
        for name, count in Counter(self.bound.values()).items():
            self.most_bound[name] = max(self.most_bound[name], count)


def _keep(found: dict[str, str], uid: str, team: str, holds: bool) -> None:
    if holds:
        found[uid] = team
    else:
        found.pop(uid, None)


def ideal(total: int, *teams: str) -> dict[str, int]:
    """The shares when all of these teams want more than they can get, by the naive reference."""
    claims = [
        Claim(
            Terms(quota * 1000, UNLIMITED if limit is None else limit * 1000, weight * 1000),
            100,
            1_000_000,
            (at, "", ""),
        )
        for at, (quota, weight, limit) in enumerate(TEAMS[team] for team in teams)
    ]
    return dict(zip(teams, (share // 1000 for share in naive.divide_level(total * 1000, claims, 1000)), strict=True))


class Arrivals:
    """Keeps teams in want: pods that run 1 to 5 s come in random handfuls."""

    def __init__(self, kube: Kube, namespace: str, seen: Sightings) -> None:
        self._kube = kube
        self._namespace = namespace
        self._seen = seen
        self._random = random.Random(7)
        self._count = 0

    def go_on(self, seconds: float, *teams: str) -> dict[str, float]:
        """The mean number of devices that each team held meanwhile."""
        sums: Counter[str] = Counter()
        looks = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._kube.create_all(within(self._namespace, *self._more(teams)))
            for _ in range(10):
                sums.update(self._seen.holding.values())
                looks += 1
                time.sleep(0.02)
        return {team: sums[team] / looks for team in TEAMS}

    def until_fair(self, *teams: str) -> dict[str, float]:
        """The means of five seconds: the first in which it is fair, where a busy machine leaves devices idle for long
        between the end of a pod and the start of the next; else the last.
        """
        for _ in range(WINDOWS - 1):
            held = self.go_on(5, *teams)
            if is_fair(held, ideal(round(sum(held.values())), *teams)):
                return held
        return self.go_on(5, *teams)

    def _more(self, teams: tuple[str, ...]) -> list[Object]:
        made = []
        for team in teams:
            missing = BACKLOG - self._seen.waiting[team]
            for _ in range(min(max(missing, 0), self._random.randint(0, 30))):
                self._count += 1
                seconds = f"{self._random.uniform(1, LONGEST_S):.2f}"
                made.append(whole(f"{team}-{self._count:04}", labels={LABEL: team}, annotations={RUN_SECONDS: seconds}))
        return made


def test_three_teams(
    kube: Kube, namespace: str, fake_nodes: FakeNodes, tangram: TangramProcess, measured: Measured
) -> None:
    fake_nodes.create(*(gpu_node(f"n{at:02}", A100, devices=1) for at in range(NODES)))
    seen = Sightings()

    async def watch() -> None:
        async for kind, pod in kube.client.follow(PODS):
            seen.see(kind, pod)

    async def begin() -> asyncio.Task[None]:
        return asyncio.create_task(watch())

    async def end(task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    watching = kube.loop.run(begin())
    specs = [queue(name, resources=gpus(quota, limit, weight)) for name, (quota, weight, limit) in TEAMS.items()]
    with queues(kube, *specs):
        eventually(lambda: len(Ops(tangram).queues()["queues"]) == len(TEAMS), "Tangram knows the queues")
        arrivals = Arrivals(kube, namespace, seen)
        arrivals.go_on(LONGEST_S + 2, "red")
        alone = arrivals.go_on(2, "red")
        arrivals.go_on(LONGEST_S + 2, "red", "blue")
        two = arrivals.until_fair("red", "blue")
        arrivals.go_on(LONGEST_S + 2, "red", "blue", "green")
        three = arrivals.until_fair("red", "blue", "green")
        statuses = {one["metadata"]["name"]: one.get("status", {}) for one in kube.list(QUEUES)}
    kube.loop.run(end(watching))

    measured(f"alone {_shown(alone)}; two {_shown(two)}; three {_shown(three)}; started {dict(seen.started)}")
    assert alone["red"] > NODES - 8, "who is alone borrows everything"
    for held, teams in ((two, ("red", "blue")), (three, ("red", "blue", "green"))):
        wanted = ideal(round(sum(held.values())), *teams)
        assert is_fair(held, wanted), (held, wanted)
    assert seen.most_bound["green"] <= 8, "limits are never exceeded"
    assert seen.most_bound["red"] + seen.most_bound["blue"] > NODES
    assert not fake_nodes.refusals
    assert statuses["green"]["conditions"][0]["status"] == "True"
    assert set(statuses["red"]) >= {"allocated", "requested", "fairShare", "waiting"}


def is_fair(held: Mapping[str, float], wanted: Mapping[str, int]) -> bool:
    """Hardly anything is idle, and every team is within one device of its share."""
    return sum(held.values()) > NODES - 4 and all(abs(held[team] - share) <= 1 for team, share in wanted.items())


def _shown(held: Mapping[str, float]) -> str:
    return " ".join(f"{team} {count:.1f}" for team, count in held.items())
