"""Usage over time: what part of the capacity each queue has used, old usage counting less (KAI's definition).

usage(queue) = Σ allocated · 0.5^(age / half-life) / Σ capacity · 0.5^(age / half-life), over a sliding window.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from queues.amounts import NOTHING, UNITS, Amounts

PPM: Final = 1_000_000
BUCKETS: Final = 64
"""The window is kept in so many pieces, in each of which usage is one sum."""
MOST_ENTRIES: Final = 32_000
"""Queues times pieces in a dumped history: about 400 KB of the MiB that a ConfigMap holds."""
FORM: Final = 1


class HistoryError(ValueError):
    """A text that holds no history that can be read."""


class _Bucket(NamedTuple):
    """Sums over a piece of time that began at `start_ms`: amounts times seconds, memory in megabytes. What there is
    stands in `capacity` under the one key "".
    """

    start_ms: int
    capacity: dict[str, Amounts]
    used: dict[str, Amounts]


class History:
    """Samples of all queues. `half_life_ms` None: everything in the window counts alike. Bounded in memory."""

    def __init__(self, half_life_ms: int | None, window_ms: int) -> None:
        self._half_life_ms = half_life_ms
        self._window_ms = window_ms
        self._piece_ms = max(window_ms // BUCKETS, 1)
        self._buckets: deque[_Bucket] = deque()
        self._last_ms: int | None = None

    def sample(self, now_ms: int, allocated: Mapping[str, Amounts], capacity: Amounts) -> None:
        """What every queue holds now, and what there is; it counts for the time since the last sample.

        After a pause (a restart, a standby) of more than a piece of the window nobody knows what was used: that time
        does not count.
        """
        last_ms, self._last_ms = self._last_ms, now_ms
        if last_ms is None or not 0 < now_ms - last_ms <= self._piece_ms + 120_000:
            return
        seconds = (now_ms - last_ms + 500) // 1000
        start_ms = now_ms - now_ms % self._piece_ms
        if not self._buckets or self._buckets[-1].start_ms != start_ms:
            self._buckets.append(_Bucket(start_ms, {}, {}))
        bucket = self._buckets[-1]
        _add(bucket.capacity, "", capacity, seconds)
        for queue, amounts in allocated.items():
            if amounts != NOTHING:
                _add(bucket.used, queue, amounts, seconds)
        self._forget(now_ms)

    def usage(self, now_ms: int) -> dict[str, Amounts]:
        """Queue → parts per million of the capacity, for queues that have used anything."""
        self._forget(now_ms)
        total = [0, 0, 0]
        used: dict[str, list[int]] = {}
        for bucket in self._buckets:
            weight = self._weight(now_ms - bucket.start_ms)
            for index, amount in enumerate(bucket.capacity.get("", NOTHING)):
                total[index] += amount * weight
            for queue, amounts in bucket.used.items():
                sums = used.setdefault(queue, [0, 0, 0])
                for index, amount in enumerate(amounts):
                    sums[index] += amount * weight
        return {
            queue: Amounts(*(sums[index] * PPM // total[index] if total[index] else 0 for index in range(3)))
            for queue, sums in used.items()
        }

    def _weight(self, age_ms: int) -> int:
        """How much a piece of that age counts, in parts per million."""
        if self._half_life_ms is None:
            return PPM
        # halvings in thousandths: exact enough, and the same on every machine
        halvings, rest = divmod(max(age_ms, 0) * 1000 // self._half_life_ms, 1000)
        return round(PPM * 2 ** (-rest / 1000)) >> min(halvings, 60)

    def _forget(self, now_ms: int) -> None:
        while self._buckets and self._buckets[0].start_ms + self._piece_ms <= now_ms - self._window_ms:
            self._buckets.popleft()

    # -- over a restart --------------------------------------------------------------------------------------------

    def dump(self) -> str:
        """The history as a text of bounded length: with very many queues in fewer, longer pieces."""
        buckets = list(self._buckets)
        entries = sum(len(bucket.used) for bucket in buckets)
        together = -(-entries // MOST_ENTRIES)
        if together > 1:
            buckets = [_merged(buckets[at : at + together]) for at in range(0, len(buckets), together)]
        return _packed(self._last_ms, buckets)

    def load(self, text: str, now_ms: int) -> None:
        """Takes up a dumped history. Raises HistoryError, and is as before, when it cannot be read."""
        try:
            document = json.loads(zlib.decompress(base64.b85decode(text)))
            if document["form"] != FORM:
                raise HistoryError(f"usage over time: form {document['form']} is not known")
            queues = [str(name) for name in document["queues"]]
            buckets = [
                _Bucket(int(start), {"": Amounts(*map(int, capacity))}, _read(queues, used))
                for start, capacity, used in document["buckets"]
            ]
            last_ms = document["last"]
        except HistoryError:
            raise
        except Exception as err:
            raise HistoryError(f"usage over time cannot be read: {type(err).__name__}: {err}") from None
        self._buckets = deque(sorted(buckets, key=lambda bucket: bucket.start_ms))
        self._last_ms = None if last_ms is None else int(last_ms)
        self._forget(now_ms)


def _add(sums: dict[str, Amounts], key: str, amounts: Amounts, seconds: int) -> None:
    before = sums.get(key, NOTHING)
    # GPU in thousandths, CPU in thousandths, memory in megabytes: sums over weeks stay small
    cpu, memory, gpu = amounts.cpu_milli, amounts.memory_bytes // UNITS.memory_bytes, amounts.gpu_milli
    sums[key] = before.plus(Amounts(cpu * seconds, memory * seconds, gpu * seconds))


def _merged(buckets: list[_Bucket]) -> _Bucket:
    """One piece for several, as old as the middle one."""
    capacity: dict[str, Amounts] = {}
    used: dict[str, Amounts] = {}
    for bucket in buckets:
        for sums, amounts in ((capacity, bucket.capacity), (used, bucket.used)):
            for key, amount in amounts.items():
                sums[key] = sums.get(key, NOTHING).plus(amount)
    return _Bucket(buckets[len(buckets) // 2].start_ms, capacity, used)


def _packed(last_ms: int | None, buckets: list[_Bucket]) -> str:
    queues = sorted({queue for bucket in buckets for queue in bucket.used})
    places = {queue: at for at, queue in enumerate(queues)}
    document = {
        "form": FORM,
        "last": last_ms,
        "queues": queues,
        "buckets": [
            [
                bucket.start_ms,
                list(bucket.capacity.get("", NOTHING)),
                [[places[queue], *amounts] for queue, amounts in sorted(bucket.used.items())],
            ]
            for bucket in buckets
        ],
    }
    return base64.b85encode(zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 6)).decode()


def _read(queues: list[str], used: list[list[int]]) -> dict[str, Amounts]:
    return {queues[at]: Amounts(int(cpu), int(memory), int(gpu)) for at, cpu, memory, gpu in used}
