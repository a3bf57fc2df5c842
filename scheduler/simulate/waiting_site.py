"""A cluster at which jobs wait: the live engine, with a kube-scheduler that follows every plan at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from scheduler.cluster import Cluster
from scheduler.engine import Engine, EngineSettings
from scheduler.gang import Gang
from scheduler.gang_spec import GangKey
from scheduler.instruction import BindOrder, BindRefusal, BindWait, Evict, Expose, Instruction, Nominate, Release
from scheduler.membership import Membership
from scheduler.object_facts import Objects
from scheduler.packing.learner import gpu_milli_of
from scheduler.packing.refresh import teach
from scheduler.pod import PodFacts
from scheduler.policy import Policy
from scheduler.recognition import recognise
from scheduler.simulate.result import Place
from scheduler.simulate.scenario import Job, Scenario
from scheduler.simulate.site import Started, Stopped
from topology import vocabulary

MOST_ROUNDS: Final = 10_000
"""Of planning at one moment: more would mean that it never settles."""


class NeverSettles(RuntimeError):
    """Planning goes on and on although nothing happens."""


def _recognise(pod: PodFacts, objects: Objects) -> Membership:
    """Nobody keeps the status of owners here: members that ran to their end are counted, whoever owns them."""
    found = recognise(pod, objects)
    return found if found.spec is None else replace(found, spec=replace(found.spec, counts_ended=False))


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

    A failure or an eviction stops all of a job: its pods are made anew and wait in their queues again.
    """

    def __init__(self, scenario: Scenario, policy: Policy) -> None:
        self.cluster = Cluster(inventory=scenario.inventory, policy=policy)
        self._settings = EngineSettings(
            device_resources=scenario.inventory.device_resources,
            max_in_flight=1 << 30,
            round_limit=1024,
            nominate_from_nodes=1 << 30,
        )
        self._engine = Engine(self.cluster, self._settings, scenario.objects, _recognise)
        self._nodes = {facts.name: facts for facts in scenario.nodes}
        for facts in scenario.nodes:
            self.cluster.set_node(facts)
        if scenario.queues:
            self._engine.set_queues(scenario.queues, 0)
        for name, labels in scenario.namespaces.items():
            self._engine.set_namespace(name, labels, 0)
        self._engine.set_topologies(scenario.topologies)
        self._known_mix = scenario.mix is not None
        if scenario.mix is not None:
            teach(self.cluster.state, scenario.mix)
        self._jobs: dict[str, _Running] = {}
        self._job_of: dict[str, _Running] = {}
        self._waits: dict[str, tuple[BindWait, str]] = {}
        self._changes: list[Started | Stopped] = []
        self._grown: dict[str, _Running] = {}
        """Jobs of which pods got to run at this moment, and that have not started."""
        self.allocated_gpu_milli = 0
        for pod in scenario.residents:
            self._engine.apply_pod(pod, 0)

    # -- jobs and nodes ----------------------------------------------------------------------------------------

    def arrive(self, job: Job, now_ms: int) -> bool:
        """See `Site.arrive`. Nothing is lost."""
        running = self._jobs[job.name] = _Running(job)
        self._create(running, now_ms)
        return True

    def end(self, job: Job, now_ms: int) -> None:
        """See `Site.end`."""
        running = self._jobs.pop(job.name)
        for uid, pod in list(running.pods.items()):
            self._leaves(running, uid)
            self._engine.apply_pod(replace(pod, phase="Succeeded"), now_ms)
            self._engine.remove_pod(uid, now_ms)

    def fail(self, node: str, now_ms: int) -> Iterable[Job]:
        """See `Site.fail`."""
        stopped = [running for running in self._jobs.values() if node in running.nodes.values()]
        self.cluster.remove_node(node)
        for running in stopped:
            self._restart(running, now_ms)
        return [running.job for running in stopped]

    def recover(self, node: str, now_ms: int) -> None:
        """See `Site.recover`."""
        self.cluster.set_node(self._nodes[node])

    def _create(self, running: _Running, now_ms: int) -> None:
        for pod in running.job.pods:
            uid = f"{pod.uid}.{running.restarts}" if running.restarts else pod.uid
            facts = replace(pod, uid=uid, created_ms=now_ms, gates=(vocabulary.GATE,), node_name=None)
            running.pods[uid] = facts
            self._job_of[uid] = running
            self._engine.apply_pod(facts, now_ms)

    def _restart(self, running: _Running, now_ms: int) -> None:
        for uid, pod in list(running.pods.items()):
            self._leaves(running, uid)
            self._engine.apply_pod(replace(pod, deleted_ms=now_ms), now_ms)
            self._engine.remove_pod(uid, now_ms)
        self._grown.pop(running.job.name, None)
        running.restarts += 1
        running.started = False
        self._create(running, now_ms)

    def _leaves(self, running: _Running, uid: str) -> None:
        """The pod is no more."""
        if running.nodes.pop(uid, None) is not None:
            self.allocated_gpu_milli -= self._gpu_milli(uid)
        self._waits.pop(uid, None)
        del running.pods[uid], self._job_of[uid]

    def _gpu_milli(self, uid: str) -> int:
        record = self._engine.roster.records.get(uid)
        return 0 if record is None or record.request is None else gpu_milli_of(record.request)

    # -- decisions ---------------------------------------------------------------------------------------------

    def settle(self, now_ms: int) -> Iterator[Started | Stopped]:
        """See `Site.settle`."""
        for uid in [uid for uid, (wait, _) in self._waits.items() if wait.until_ms <= now_ms]:
            del self._waits[uid]
            self._engine.binding.waited_in_vain(uid, now_ms)
        for _ in range(MOST_ROUNDS):
            if not self._round(now_ms):
                break
        else:
            raise NeverSettles(f"planning at {now_ms} ms does not end")
        grown, self._grown = self._grown, {}
        for running in grown.values():
            if self._has_enough(running):
                running.started = True
                self._changes.append(Started(running.job, tuple(self._places(running))))
        changes, self._changes = self._changes, []
        yield from changes

    def _places(self, running: _Running) -> Iterator[Place]:
        for uid, pod in running.pods.items():
            if uid in running.nodes:
                yield Place(pod.name, running.nodes[uid], self.cluster.ledger.entries[uid].devices)

    def _has_enough(self, running: _Running) -> bool:
        """Whether all of its pods run, but for those beyond what their gang needs."""
        gangs: dict[GangKey, Gang] = {}
        for uid in running.pods.keys() - running.nodes.keys():
            record = self._engine.roster.records[uid]
            if record.membership.spec is None or record.membership.problem:
                return False
            if record.gang is not None:  # else one pod is enough for its group
                gangs[record.gang.key] = record.gang
        views = [gang.view(lambda record: record.stays) for gang in gangs.values()]
        return bool(running.nodes) and all(view.satisfied(view.root) for view in views)

    def _round(self, now_ms: int) -> bool:
        """A round as the service makes it, but that what it does beside the loop is done at once. Whether another
        should follow.
        """
        if not self._known_mix:
            self._engine.packing.at_once(now_ms)
        instructions, more = self._engine.plan(now_ms)
        for instruction in instructions:
            self._carry_out(instruction, now_ms)
        # nobody is there to be told why pods wait; it would take a search for each of them every few seconds
        self._engine.telling.clear()
        followed = self._go_on(now_ms) or any(isinstance(one, Release | Nominate | Evict) for one in instructions)
        question = self._engine.question()
        if question is not None:
            self._engine.answered(question, question.answer(self._settings.exact_limit))
        return more or followed or question is not None

    def _carry_out(self, instruction: Instruction, now_ms: int) -> None:
        if instruction.uid not in self._job_of:
            return  # an eviction of another pod of its job was faster
        if isinstance(instruction, Release | Expose):
            self._update(instruction.uid, now_ms, gates=())
            self._engine.released(instruction.uid, True, now_ms)
        if isinstance(instruction, Release | Nominate) and instruction.node is not None:
            pod = self._pod(instruction.uid)
            verdict = self._engine.binding.start(pod.uid, pod.namespace, pod.name, instruction.node, now_ms)
            self._bind(pod.uid, instruction.node, verdict, now_ms)
        elif isinstance(instruction, Evict):
            running = self._job_of[instruction.uid]
            self._changes.append(Stopped(running.job))
            self._restart(running, now_ms)

    def _go_on(self, now_ms: int) -> bool:
        """Members of gangs that waited at bind for others. Whether any waits no longer."""
        before = len(self._waits)
        for uid, (wait, node) in list(self._waits.items()):
            self._bind(uid, node, self._engine.binding.go_on(wait, uid, node, now_ms), now_ms)
        return len(self._waits) < before

    def _bind(self, uid: str, node: str, verdict: BindOrder | BindWait | BindRefusal, now_ms: int) -> None:
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
        if not running.started:
            self._grown.pop(running.job.name, None)
            self._grown[running.job.name] = running

    def _pod(self, uid: str) -> PodFacts:
        return self._job_of[uid].pods[uid]

    def _update(self, uid: str, now_ms: int, **changes: object) -> None:
        facts = replace(self._pod(uid), **changes)  # type: ignore[arg-type]
        self._job_of[uid].pods[uid] = facts
        self._engine.apply_pod(facts, now_ms)

    def next_ms(self, now_ms: int) -> int | None:
        """See `Site.next_ms`."""
        due = [wait.until_ms for wait, _ in self._waits.values()]
        engine_ms = self._engine.next_deadline_ms(now_ms)
        return min(due if engine_ms is None else [*due, engine_ms], default=None)

    def reasons(self, now_ms: int) -> dict[str, str]:
        """See `Site.reasons`. Pods that stand together in line wait for the same."""
        told: dict[int, str] = {}
        found = {}
        for name, running in self._jobs.items():
            uid = next((uid for uid in running.pods if uid not in running.nodes), None)
            if uid is None or running.started:
                continue
            record = self._engine.roster.records[uid]
            key = id(self._engine.roster.line.alike(record)) if uid in self._engine.roster.waiting else 0
            if key == 0 or key not in told:
                reason = self._engine.why(record, now_ms) if key else record.reason
                told[key] = "" if reason is None else str(reason.code)
            found[name] = told[key]
        return found

    def usage_by_queue(self) -> dict[str, int]:
        """See `Site.usage_by_queue`."""
        standings = self.cluster.accounts.books.standings
        return {name: standing.allocated.gpu_milli for name, standing in standings.items()}
