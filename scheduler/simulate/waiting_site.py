"""A cluster at which jobs wait: the live engine, with a kube-scheduler that follows every plan at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from scheduler.cluster import Cluster
from scheduler.engine import Engine, EngineSettings
from scheduler.instruction import BindOrder, BindWait, Evict, Expose, Nominate, Release
from scheduler.packing.refresh import learner_of
from scheduler.packing.survey import hardware_of
from scheduler.pod import PodFacts
from scheduler.policy import Policy
from scheduler.simulate.loss_site import gpu_milli_of
from scheduler.simulate.scenario import Job, Scenario
from scheduler.simulate.site import Started
from topology import vocabulary

MOST_ROUNDS: Final = 10_000
"""Of planning at one moment: more would mean that it never settles."""


class NeverSettles(RuntimeError):
    """Planning goes on and on although nothing happens."""


class _Running:
    """A job that came: its pods as they are now, and on which nodes they run."""

    __slots__ = ("job", "nodes", "pods", "restarts", "started")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.pods: dict[str, PodFacts] = {}
        self.nodes: dict[str, str] = {}
        self.restarts = 0
        self.started = False


class WaitingSite:
    """Pods come with our gate on; what the engine releases is bound with what it writes with the Binding.

    A failure stops all of a job: its pods are made anew and wait in their queues again.
    """

    def __init__(self, scenario: Scenario, policy: Policy) -> None:
        self.cluster = Cluster(inventory=scenario.inventory, policy=policy)
        self._engine = Engine(
            self.cluster,
            EngineSettings(
                device_resources=scenario.inventory.device_resources,
                max_in_flight=1 << 30,
                round_limit=1024,
                nominate_from_nodes=1 << 30,
            ),
            scenario.objects,
        )
        self._nodes = {facts.name: facts for facts in scenario.nodes}
        for facts in scenario.nodes:
            self.cluster.set_node(facts)
        if scenario.queues:
            self._engine.set_queues(scenario.queues, 0)
        self._engine.set_topologies(scenario.topologies)
        self._known_mix = scenario.mix is not None
        learner = learner_of(policy)
        if learner is not None and scenario.mix is not None:
            learner.publish(learner.build(scenario.mix, hardware_of(self.cluster.state)))
        self._jobs: dict[str, _Running] = {}
        self._job_of: dict[str, _Running] = {}
        self._waits: dict[str, tuple[BindWait, str]] = {}
        self._started: list[Started] = []
        self.allocated_gpu_milli = 0

    def arrive(self, job: Job, now_ms: int) -> bool:
        """See `Site.arrive`. Nothing is lost."""
        running = self._jobs[job.name] = _Running(job)
        self._create(running, now_ms)
        return True

    def _create(self, running: _Running, now_ms: int) -> None:
        running.nodes.clear()
        running.started = False
        for pod in running.job.pods:
            uid = f"{pod.uid}.{running.restarts}" if running.restarts else pod.uid
            facts = replace(pod, uid=uid, created_ms=now_ms, gates=(vocabulary.GATE,), node_name=None)
            running.pods[uid] = facts
            self._job_of[uid] = running
            self._engine.apply_pod(facts, now_ms)

    def end(self, job: Job, now_ms: int) -> None:
        """See `Site.end`."""
        running = self._jobs.pop(job.name)
        for uid, pod in running.pods.items():
            if running.nodes.pop(uid, None) is not None:
                self.allocated_gpu_milli -= self._gpu_milli(uid)
            self._engine.apply_pod(replace(pod, phase="Succeeded"), now_ms)
            self._forget(uid, now_ms)

    def _gpu_milli(self, uid: str) -> int:
        record = self._engine.roster.records.get(uid)
        return 0 if record is None or record.request is None else gpu_milli_of(record.request)

    def _forget(self, uid: str, now_ms: int) -> None:
        running = self._job_of.pop(uid)
        if running.nodes.pop(uid, None) is not None:
            self.allocated_gpu_milli -= self._gpu_milli(uid)
        self._engine.remove_pod(uid, now_ms)
        self._waits.pop(uid, None)

    def fail(self, node: str, now_ms: int) -> Iterable[Job]:
        """See `Site.fail`."""
        stopped = [running for running in self._jobs.values() if node in running.nodes.values()]
        self.cluster.remove_node(node)
        for running in stopped:
            self._restart(running, now_ms)
        return [running.job for running in stopped]

    def _restart(self, running: _Running, now_ms: int) -> None:
        for uid in running.pods:
            self._forget(uid, now_ms)
        running.pods.clear()
        running.restarts += 1
        self._create(running, now_ms)

    def recover(self, node: str, now_ms: int) -> None:
        """See `Site.recover`."""
        self.cluster.set_node(self._nodes[node])

    def settle(self, now_ms: int) -> Iterator[Started]:
        """See `Site.settle`."""
        for _ in range(MOST_ROUNDS):
            if not self._known_mix:
                question = self._engine.packing.question(now_ms)
                if question is not None:
                    self._engine.packing.answered(question, question.answer())
            instructions, more = self._engine.plan(now_ms)
            for instruction in instructions:
                self._carry_out(instruction, now_ms)
            bound = self._go_on(now_ms)
            if not (more or bound or any(isinstance(one, Release | Nominate | Evict) for one in instructions)):
                break
        else:
            raise NeverSettles(f"planning at {now_ms} ms does not end")
        started, self._started = self._started, []
        yield from started

    def _carry_out(self, instruction: object, now_ms: int) -> None:
        if isinstance(instruction, Release | Expose):
            self._update(instruction.uid, now_ms, gates=())
            self._engine.released(instruction.uid, True, now_ms)
        if isinstance(instruction, Release | Nominate) and instruction.node is not None:
            pod = self._pod(instruction.uid)
            verdict = self._engine.binding.start(pod.uid, pod.namespace, pod.name, instruction.node, now_ms)
            self._bind(pod.uid, instruction.node, verdict, now_ms)
        elif isinstance(instruction, Evict):
            self._restart(self._job_of[instruction.uid], now_ms)

    def _go_on(self, now_ms: int) -> bool:
        """Members of gangs that waited at bind for others. Whether any is bound now."""
        before = len(self._waits)
        for uid, (wait, node) in list(self._waits.items()):
            self._bind(uid, node, self._engine.binding.go_on(wait, uid, node, now_ms), now_ms)
        return len(self._waits) < before

    def _bind(self, uid: str, node: str, verdict: object, now_ms: int) -> None:
        self._waits.pop(uid, None)
        if isinstance(verdict, BindWait):
            self._waits[uid] = verdict, node
        elif isinstance(verdict, BindOrder):
            self._engine.binding.finish(uid, True, now_ms)
            annotations = {**self._pod(uid).annotations, **verdict.annotations}
            self._update(uid, now_ms, node_name=node, annotations=annotations, phase="Running", started_ms=now_ms)
            self._runs(uid, node)

    def _runs(self, uid: str, node: str) -> None:
        running = self._job_of[uid]
        running.nodes[uid] = node
        self.allocated_gpu_milli += self._gpu_milli(uid)
        if len(running.nodes) == len(running.pods) and not running.started:
            running.started = True
            self._started.append(Started(running.job, tuple(running.nodes[uid] for uid in running.pods)))

    def _pod(self, uid: str) -> PodFacts:
        return self._job_of[uid].pods[uid]

    def _update(self, uid: str, now_ms: int, **changes: object) -> None:
        facts = replace(self._pod(uid), **changes)  # type: ignore[arg-type]
        self._job_of[uid].pods[uid] = facts
        self._engine.apply_pod(facts, now_ms)

    def next_ms(self, now_ms: int) -> int | None:
        """See `Site.next_ms`."""
        return self._engine.next_deadline_ms(now_ms)

    def usage_by_queue(self) -> dict[str, int]:
        """See `Site.usage_by_queue`."""
        standings = self.cluster.accounts.books.standings
        return {name: standing.allocated.gpu_milli for name, standing in standings.items()}
