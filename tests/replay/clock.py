"""A world in which time passes: pods run for as long as they were made to, and what is due happens in steps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from scheduler.pod import PodFacts
from tests.engine.world import pod
from tests.replay.queued import QueuedWorld, in_queue
from topology import vocabulary

MINUTE = 60_000


@dataclass
class Clock(QueuedWorld):
    """Virtual time from minute 0 on, in steps of `step_ms`."""

    step_ms: int = 10_000
    began_ms: int = 1_000_000
    runs_ms: dict[str, int] = field(default_factory=dict)
    ends_ms: dict[str, int] = field(default_factory=dict)
    started_ms: dict[str, int] = field(default_factory=dict)

    @property
    def minute(self) -> float:
        """Now."""
        return (self.now_ms - self.began_ms) / MINUTE

    def submit(
        self,
        name: str,
        gpus: int,
        minutes: float,
        *,
        label: str | None = None,
        declared: bool = True,
        priority: int = 0,
    ) -> PodFacts:
        """A pod that comes now and runs so long, which it says where it is `declared`."""
        says = {vocabulary.EXPECTED_RUNTIME.key: f"{minutes * 60:g}s"} if declared else {}
        facts = pod(name, whole=gpus, created_ms=self.now_ms, annotations=says, priority=priority)
        if label is not None:
            facts = in_queue(label, facts)
        self.runs_ms[facts.uid] = round(minutes * MINUTE)
        self.create(facts)
        return facts

    def step(self) -> None:
        """What is due ends, what can start does; then time passes."""
        for uid in [uid for uid, end_ms in self.ends_ms.items() if end_ms <= self.now_ms]:
            del self.ends_ms[uid]
            self.end(self.pods[uid].name)
        for name in self.schedule_all():
            uid = f"uid-{name}"
            self.started_ms[uid] = self.now_ms
            self.ends_ms[uid] = self.now_ms + self.runs_ms[uid]
            self.create(replace(self.pods[uid], phase="Running", started_ms=self.now_ms))
        self.engine.validate()
        self.now_ms += self.step_ms

    def started(self, name: str) -> float:
        """The minute in which the pod started. KeyError when it has not."""
        return (self.started_ms[f"uid-{name}"] - self.began_ms) / MINUTE
