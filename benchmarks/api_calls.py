"""How often the API server was called, from its own metrics."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final, NamedTuple

METRIC: Final = "apiserver_request_total"
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class ApiCall(NamedTuple):
    """A kind of call. `what` is the resource, with the subresource after a slash."""

    verb: str
    what: str

    @property
    def writes(self) -> bool:
        """Changes something."""
        return self.verb in ("POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION")

    def __str__(self) -> str:
        return f"{self.verb} {self.what}"


def counted(exposition: str) -> Counter[ApiCall]:
    """Calls by kind, over all answers, in the text that /metrics gives."""
    calls: Counter[ApiCall] = Counter()
    for line in exposition.splitlines():
        if not line.startswith(METRIC + "{"):
            continue
        labels = dict(_LABEL.findall(line))
        subresource = labels.get("subresource", "")
        what = labels.get("resource", "") + (f"/{subresource}" if subresource else "")
        calls[ApiCall(labels.get("verb", ""), what)] += round(float(line.rpartition("} ")[2].split()[0]))
    return calls


def per_pod(before: Counter[ApiCall], after: Counter[ApiCall], pods: int) -> dict[ApiCall, float]:
    """Calls between two readings for each of `pods` pods, the most frequent first; below 0.005 left out."""
    grown = {call: (after[call] - before[call]) / pods for call in after}
    return {call: rate for call, rate in sorted(grown.items(), key=lambda item: -item[1]) if rate >= 0.005}
