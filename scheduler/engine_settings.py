"""The knobs of the engine."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.gang_spec import STALE_GRACE_MS
from topology import vocabulary


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Knobs of the engine; times in milliseconds."""

    scheduler_name: str = vocabulary.DEFAULT_SCHEDULER_NAME
    device_resources: tuple[str, ...] = vocabulary.DEFAULT_DEVICE_RESOURCES
    require_device_variable: bool = False
    """Whether a share waits when its container would never learn its device; see `device_variable`."""
    booking_deadline_ms: int = 60_000
    """A booking whose pod does not come to bind for so long is planned again."""
    max_in_flight: int = 512
    """Most pods planned and not yet bound: what kube-scheduler's queue may hold of ours."""
    round_limit: int = 32
    """Most placements in one round; more follow in the next, so that webhooks are answered in between."""
    nominate_from_nodes: int = 1000
    """From so many nodes on, plans are announced by nominatedNodeName before the gate goes."""
    tell_after_ms: int = 400
    """A pod that waits shorter gets no message."""
    retell_after_ms: int = 10_000
    """A pod's message changes at most so often."""
    tells_per_tick: int = 100
    fact_ttl_ms: int = 30_000
    """Longest time for which a list of nodes that kube-scheduler offered is believed."""
    release_backoff_ms: int = 1000
    """First wait after a release or bind that failed, or a booking that expired; it doubles."""
    longest_backoff_ms: int = 300_000
    shortest_booking_ms: int = 15_000
    """A pod whose bookings expire again and again holds its place for less and less time, down to this."""
    starving_after_ms: int = 600_000
    """A pod that waits longer for room gets a reservation, where its queue does not say otherwise. 0: never."""
    reservations: int = 8
    """Most reservations at once."""
    gang_bind_wait_ms: int = 90_000
    """A member of a gang waits at bind so long for others; shorter than kube-scheduler waits for us."""
    stale_grace_ms: int = STALE_GRACE_MS
    """A gang that runs below its minimum for so long is restarted, where it does not say otherwise. Negative: never."""
    restart_stale: bool = True
    """Whether it is; else it is left alone."""
    exact_limit: float = 1.0
    """How long a place is looked for exactly for a gang that the search finds none for, in CP-SAT's deterministic time.
    0: not at all."""
    unsure_ms: int = 20_000
    """How long a Binding that was sent without an answer may still take effect."""

    def backoff_ms(self, failures: int) -> int:
        """The wait after so many failures in a row."""
        return min(self.release_backoff_ms << min(failures, 16), self.longest_backoff_ms)

    def hold_ms(self, expiries: int) -> int:
        """How long a place is held for a pod whose bookings expired so often."""
        return max(
            self.booking_deadline_ms >> min(expiries, 16), min(self.shortest_booking_ms, self.booking_deadline_ms)
        )
