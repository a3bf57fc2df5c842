"""What the engine wants done in the outside world. The engine decides; extender_api carries out and reports back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.gang_spec import GangKey
from scheduler.reason import Reason


@dataclass(frozen=True, slots=True)
class Release:
    """Take our gate off a planned pod. With `nominate`, set status.nominatedNodeName to `node` first.

    `gates` are the pod's gates as last seen: the position of ours is needed for the patch.
    """

    uid: str
    namespace: str
    name: str
    node: str
    gates: tuple[str, ...]
    nominate: bool = False


@dataclass(frozen=True, slots=True)
class Expose:
    """Take our gate off a pod for which there is no room, so that it counts as unschedulable. Gates as in `Release`."""

    uid: str
    namespace: str
    name: str
    gates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Nominate:
    """Announce a new plan for a pod that is already released: kube-scheduler then asks again.

    `node` None takes an announcement back: kube-scheduler keeps room for a nominated pod. `again` says that the node
    may be named there already, where naming it once more would wake nobody.
    """

    uid: str
    namespace: str
    name: str
    node: str | None
    again: bool = False


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell the pod's owner why it waits: the message of PodScheduled while `gated`, and one event."""

    uid: str
    namespace: str
    name: str
    reason: Reason
    gated: bool


@dataclass(frozen=True, slots=True)
class Warn:
    """One warning event about something in the pod that works but is not meant, e.g. a deprecated key."""

    uid: str
    namespace: str
    name: str
    problem: str
    text: str


@dataclass(frozen=True, slots=True)
class Evict:
    """End a running pod through the eviction API; `why` goes into an event."""

    uid: str
    namespace: str
    name: str
    why: str


Instruction = Evict | Release | Expose | Nominate | Tell | Warn


@dataclass(frozen=True, slots=True)
class BindOrder:
    """A bind that may go ahead: write these annotations with the Binding. Empty on virtual nodes."""

    uid: str
    namespace: str
    name: str
    node: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    opens: GangKey | None = None
    """The gang of which this is the first Binding: others wait for what becomes of it."""


@dataclass(frozen=True, slots=True)
class BindWait:
    """A bind that has to wait until its gang is decided, at most until `until_ms`; then it is asked about again."""

    gang: GangKey
    until_ms: int


@dataclass(frozen=True, slots=True)
class BindRefusal:
    """A bind that must not go ahead; `error` is given to kube-scheduler."""

    error: str
