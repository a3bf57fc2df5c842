"""Usage over time: what part of the capacity each queue has used, old usage counting less (KAI's definition).

usage(queue) = Σ allocated · 0.5^(age / half-life) / Σ capacity · 0.5^(age / half-life), over a sliding window.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final

from queues.amounts import NOTHING, UNITS, Amounts

PPM: Final = 1_000_000
BUCKETS: Final = 64
"""The window is kept in so many pieces, in each of which usage is one sum."""
HALVINGS: Final = 20
"""What is so many half-lives old counts less than a millionth: nothing."""
PAUSE_MS: Final = 120_000
MOST_ENTRIES: Final = 32_000
"""Queues times pieces in a dumped history: about 600 KB of the MiB that a ConfigMap holds."""
MOST_TEXT: Final = 900 << 10
MOST_LOADED: Final = 64 << 20
"""A text that unpacks to more bytes than this is none of ours."""
FORM: Final = 1


class HistoryError(ValueError):
    """A text that holds no history that can be read."""


@dataclass(slots=True)
class _Bucket:
    """Sums over a piece of time that began at `start_ms`: amounts times seconds, memory in megabytes. What there is
    stands in `capacity` under the one key "".

    `delay` is, over its `seconds`, how long after the beginning they were sampled, summed in milliseconds.
    """

    start_ms: int
    seconds: int = 0
    delay: int = 0
    capacity: dict[str, Amounts] = field(default_factory=dict)
    used: dict[str, Amounts] = field(default_factory=dict)

    @property
    def at_ms(self) -> int:
        """When its usage was, on average."""
        return self.start_ms + (self.delay // self.seconds if self.seconds else 0)


class History:
    """Samples of all queues. `half_life_ms` None: everything in the window counts alike. Bounded in memory."""

    def __init__(self, half_life_ms: int | None, window_ms: int) -> None:
        self._half_life_ms = half_life_ms
        self._reach_ms = window_ms if half_life_ms is None else min(window_ms, half_life_ms * HALVINGS)
        self._piece_ms = max(self._reach_ms // BUCKETS, 1)
        self._buckets: deque[_Bucket] = deque()
        self._last_ms: int | None = None
        self._past: _Bucket | None = None
        """All buckets but the last as one, each by its weight in parts per million at the start of the last."""

    def sample(self, now_ms: int, allocated: Mapping[str, Amounts], capacity: Amounts) -> None:
        """What every queue holds now, and what there is; it counts for the time since the last sample.

        After a pause (a restart, a standby) of more than a piece of the window nobody knows what was used: that time
        does not count. Nor does what is dated later than now, after the clock was set back.
        """
        last_ms, self._last_ms = self._last_ms, now_ms
        self._forget(now_ms)
        if last_ms is None or not 0 < now_ms - last_ms <= self._piece_ms + PAUSE_MS:
            return
        seconds = (now_ms - last_ms + 500) // 1000
        start_ms = now_ms - now_ms % self._piece_ms
        if not self._buckets or self._buckets[-1].start_ms < start_ms:
            self._buckets.append(_Bucket(start_ms))
            self._past = None
        bucket = self._buckets[-1]
        bucket.seconds += seconds
        bucket.delay += seconds * (now_ms - bucket.start_ms)
        _add(bucket.capacity, "", capacity, seconds)
        for queue, amounts in allocated.items():
            if amounts != NOTHING:
                _add(bucket.used, queue, amounts, seconds)

    def usage(self, now_ms: int) -> dict[str, Amounts]:
        """Queue → parts per million of the capacity, for queues that have used anything."""
        self._forget(now_ms)
        if not self._buckets:
            return {}
        last = self._buckets[-1]
        past = self._past = self._past or self._weighted(list(self._buckets)[:-1], last.start_ms)
        old, new = self._weight(now_ms - last.start_ms), self._weight(now_ms - last.at_ms) * PPM
        total = _sum(past.capacity.get("", NOTHING), old, last.capacity.get("", NOTHING), new)
        return {
            queue: _parts(_sum(past.used.get(queue, NOTHING), old, last.used.get(queue, NOTHING), new), total)
            for queue in past.used | last.used
        }

    def _weighted(self, buckets: Iterable[_Bucket], at_ms: int) -> _Bucket:
        """One bucket for several, each by its weight in parts per million."""
        found = _Bucket(at_ms)
        for bucket in buckets:
            _collect(found, bucket, self._weight(at_ms - bucket.at_ms))
        return found

    def _weight(self, age_ms: int) -> int:
        """How much usage of that age counts, in parts per million."""
        if self._half_life_ms is None:
            return PPM
        # halvings in thousandths: exact enough, and the same on every machine
        halvings, rest = divmod(max(age_ms, 0) * 1000 // self._half_life_ms, 1000)
        return round(PPM * 2 ** (-rest / 1000)) >> min(halvings, 60)

    def _forget(self, now_ms: int) -> None:
        """Drops what is out of the window, and what the clock, set back since, says is still to come."""
        while self._buckets and self._buckets[0].at_ms + self._piece_ms <= now_ms - self._reach_ms:
            self._buckets.popleft()
            self._past = None
        while self._buckets and self._buckets[-1].start_ms > now_ms:
            self._buckets.pop()
            self._past = None

    # -- over a restart --------------------------------------------------------------------------------------------

    def dump(self) -> str:
        """The history as a text of at most MOST_TEXT characters.

        With very many queues in fewer, longer pieces; where that is not enough, without those that used least.
        """
        buckets = list(self._buckets)
        together = 1
        while (entries := sum(len(bucket.used) for bucket in buckets)) > MOST_ENTRIES and together < BUCKETS:
            together <<= max((entries // MOST_ENTRIES).bit_length() - 1, 1)
            buckets = self._in_longer_pieces(together)
        while len(text := _packed(self._last_ms, buckets)) > MOST_TEXT:
            if together < 2 * BUCKETS:
                together *= 2
                buckets = self._in_longer_pieces(together)
            else:
                buckets = _busier_half(buckets)
        return text

    def _in_longer_pieces(self, together: int) -> list[_Bucket]:
        """So many pieces as one. Their borders are fixed, so doing it again moves nothing."""
        piece_ms = self._piece_ms * together
        groups = groupby(self._buckets, key=lambda bucket: bucket.start_ms // piece_ms)
        return [_merged(list(group)) for _, group in groups]

    def load(self, text: str, now_ms: int) -> None:
        """Takes up a dumped history. Raises HistoryError, and is as before, when it cannot be read."""
        try:
            last_ms, buckets = _unpacked(text)
        except HistoryError:
            raise
        except Exception as err:
            raise HistoryError(f"usage over time cannot be read: {type(err).__name__}: {err}") from None
        self._buckets = deque(sorted(buckets, key=lambda bucket: bucket.start_ms))
        self._last_ms = last_ms
        self._past = None
        self._forget(now_ms)


def _add(sums: dict[str, Amounts], key: str, amounts: Amounts, seconds: int) -> None:
    # GPU in thousandths, CPU in thousandths, memory in megabytes: sums over weeks stay small
    in_megabytes = amounts._replace(memory_bytes=amounts.memory_bytes // UNITS.memory_bytes)
    sums[key] = _sum(sums.get(key, NOTHING), 1, in_megabytes, seconds)


def _sum(first: Amounts, times: int, second: Amounts, by: int) -> Amounts:
    """first · times + second · by."""
    cpu, memory, gpu = first
    more_cpu, more_memory, more_gpu = second
    return Amounts(cpu * times + more_cpu * by, memory * times + more_memory * by, gpu * times + more_gpu * by)


def _parts(used: Amounts, total: Amounts) -> Amounts:
    """Parts per million; 0 of what there is none of."""
    cpu, memory, gpu = (part * PPM // whole if whole else 0 for part, whole in zip(used, total, strict=True))
    return Amounts(cpu, memory, gpu)


def _collect(into: _Bucket, bucket: _Bucket, weight: int) -> None:
    """Adds the amounts of a bucket, times the weight."""
    for sums, amounts in ((into.capacity, bucket.capacity), (into.used, bucket.used)):
        for key, amount in amounts.items():
            sums[key] = _sum(sums.get(key, NOTHING), 1, amount, weight)


def _merged(buckets: list[_Bucket]) -> _Bucket:
    """One bucket for several that follow one another, as old as they are on average."""
    found = _Bucket(buckets[0].start_ms)
    for bucket in buckets:
        found.seconds += bucket.seconds
        found.delay += bucket.delay + bucket.seconds * (bucket.start_ms - found.start_ms)
        _collect(found, bucket, 1)
    return found


def _busier_half(buckets: list[_Bucket]) -> list[_Bucket]:
    """Without the half of the queues that used least: devices first, then memory, then CPU."""
    used = _merged(buckets).used
    kept = set(sorted(used, key=lambda queue: (used[queue][::-1], queue), reverse=True)[: len(used) // 2])
    return [
        replace(bucket, used={queue: amounts for queue, amounts in bucket.used.items() if queue in kept})
        for bucket in buckets
    ]


# -- the text: JSON, compressed, in base 85 --------------------------------------------------------------------------


def _packed(last_ms: int | None, buckets: list[_Bucket]) -> str:
    queues = sorted({queue for bucket in buckets for queue in bucket.used})
    places = {queue: at for at, queue in enumerate(queues)}
    document = {
        "form": FORM,
        "last": last_ms,
        "queues": queues,
        "buckets": [
            [
                [bucket.start_ms, bucket.seconds, bucket.delay],
                list(bucket.capacity.get("", NOTHING)),
                [[places[queue], *amounts] for queue, amounts in sorted(bucket.used.items())],
            ]
            for bucket in buckets
        ],
    }
    return base64.b85encode(zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 6)).decode()


def _unpacked(text: str) -> tuple[int | None, list[_Bucket]]:
    """When the last sample was, and the buckets. Raises HistoryError, and whatever a foreign text leads to."""
    unpacking = zlib.decompressobj()
    content = unpacking.decompress(base64.b85decode(text.strip()), MOST_LOADED)
    if not unpacking.eof:
        raise HistoryError("usage over time cannot be read: the text is cut off or unpacks to too much")
    document = json.loads(content)
    if document["form"] != FORM:
        raise HistoryError(f"usage over time: form {document['form']} is not known")
    queues = [str(name) for name in document["queues"]]
    buckets = [
        _Bucket(
            *_read(when), {"": Amounts(*_read(capacity))}, {queues[at]: Amounts(*_read(held)) for at, *held in used}
        )
        for when, capacity, used in document["buckets"]
    ]
    last_ms = document["last"]
    return None if last_ms is None else int(last_ms), buckets


def _read(numbers: list[Any]) -> tuple[int, int, int]:
    first, second, third = map(int, numbers)
    if min(first, second, third) < 0:
        raise HistoryError("usage over time cannot be read: a number below 0")
    return first, second, third
