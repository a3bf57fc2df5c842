"""Why a request fits nowhere: each node's first reason, and the one that tells most."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels import arrays as layout
from scheduler.kernels import diagnose, feasible
from scheduler.kernels.arrays import Ask
from scheduler.reason import Code, Reason
from scheduler.request import Demand, Request
from scheduler.state import ClusterState

_COLUMN_CODES: Final = {
    layout.CPU: Code.INSUFFICIENT_CPU,
    layout.MEMORY: Code.INSUFFICIENT_MEMORY,
    layout.EPHEMERAL: Code.INSUFFICIENT_EPHEMERAL_STORAGE,
    layout.PODS: Code.TOO_MANY_PODS,
}
_COLUMN_WORDS: Final = {
    layout.CPU: ("need_milli", "best_milli"),
    layout.MEMORY: ("need_bytes", "best_bytes"),
    layout.EPHEMERAL: ("need_bytes", "best_bytes"),
    layout.PODS: ("need", "free"),
}
_DEVICE_CODES: Final = {
    diagnose.VIRTUAL_SHARE: Code.VIRTUAL_NODE_SHARES,
    diagnose.NO_SHARES: Code.SHARES_NOT_SUPPORTED,
    diagnose.TOO_FEW_DEVICES: Code.NEED_DISTINCT_DEVICES,
    diagnose.UNKNOWN_MEMORY: Code.UNKNOWN_CARD_MEMORY,
    diagnose.LITTLE_MILLI: Code.INSUFFICIENT_GPU_SHARE,
    diagnose.LITTLE_MEMORY: Code.INSUFFICIENT_GPU_MEMORY,
    diagnose.FEW_IDLE: Code.INSUFFICIENT_WHOLE_GPUS,
}
CAPACITY: Final = frozenset(
    {
        Code.INSUFFICIENT_CPU,
        Code.INSUFFICIENT_MEMORY,
        Code.INSUFFICIENT_EPHEMERAL_STORAGE,
        Code.TOO_MANY_PODS,
        Code.INSUFFICIENT_RESOURCE,
        Code.INSUFFICIENT_WHOLE_GPUS,
        Code.INSUFFICIENT_GPU_SHARE,
        Code.INSUFFICIENT_GPU_MEMORY,
        Code.NEED_DISTINCT_DEVICES,
    }
)
"""Reasons that say what a node has too little of. They tell more than rules that forbid a node."""


_CODES: Final = tuple(Code)
_PLACE: Final = {code: place for place, code in enumerate(_CODES)}
_NOTHING: Final = -1


def codes(state: ClusterState, request: Request, static: Mapping[int, Code]) -> dict[int, Code]:
    """Slot → the first reason that rules the node out; nodes that would hold the request are absent.

    `static` holds what rules (not room) forbid, by slot; it comes first. Then what no waiting changes (devices of
    another kind, shares not possible), then resources, then devices.
    """
    places = _places(_lacks(state, request), static, None)
    slots = np.flatnonzero(places != _NOTHING)
    return dict(zip(slots.tolist(), (_CODES[place] for place in places[slots].tolist()), strict=True))


def why(
    state: ClusterState,
    request: Request,
    static: Mapping[int, Code],
    offered: Collection[int] | None = None,
) -> Reason:
    """The reason of a request that fits on none of the nodes: see `codes`; slots not `offered` count as NOT_OFFERED.

    `nodes` counts every node that is ruled out. The code is the commonest in CAPACITY among nodes that have the kind
    of thing at all; without any such, the commonest there; without any such node, the commonest of all. NO_NODES when
    nothing is ruled out. The numbers say what is needed and the most that one of those nodes has:
    `need_milli`/`best_milli` (CPU, fractions), `need_bytes`/`best_bytes` (memory, ephemeral storage),
    `need_mib`/`most_free_mib` (shares by memory), `need`/`free` (pods; with `resource` for devices and all others),
    `need`/`have` (NEED_DISTINCT_DEVICES), `need_mib` (UNKNOWN_CARD_MEMORY); `devices` where a share wants several.
    """
    lacks = _lacks(state, request)
    places = _places(lacks, static, offered)
    found = places != _NOTHING
    if not found.any():
        return Reason(Code.NO_NODES)
    suited = found & lacks.suited()
    telling = suited if suited.any() else found
    code = _most_telling(_counts(places[telling]))
    own = telling & (places == _PLACE[code])
    own[list(static)] = False
    return Reason(code, lacks.numbers(own), _counts(places[found]))


def _places(lacks: _Lacks, static: Mapping[int, Code], offered: Collection[int] | None) -> NDArray[np.int64]:
    """int64[slots]: for each node the place of its first reason in `_CODES`, _NOTHING where there is none."""
    places = np.full(len(lacks.codes), _NOTHING, np.int64)
    for found in np.unique(lacks.codes).tolist():
        code = lacks.code(found)
        if code is not None:
            places[lacks.codes == found] = _PLACE[code]
    if offered is not None:
        missing = np.ones(len(places), np.bool_)
        missing[list(offered)] = False
        places[missing] = _PLACE[Code.NOT_OFFERED]
    places[list(static)] = [_PLACE[code] for code in static.values()]
    places[~lacks.state.occupied] = _NOTHING
    return places


def _counts(places: NDArray[np.int64]) -> dict[Code, int]:
    """How often each reason occurs, in the order of `Code`."""
    counts = np.bincount(places, minlength=len(_CODES)).tolist()
    return {code: count for code, count in zip(_CODES, counts, strict=True) if count}


def _most_telling(counts: Mapping[Code, int]) -> Code:
    telling = [code for code in counts if code in CAPACITY]
    return min(telling or counts, key=lambda code: (-counts[code], _PLACE[code]))


def _lacks(state: ClusterState, request: Request) -> _Lacks:
    ask = state.ask(request)
    nodes, buffers, end = state.arrays, state.scratch, len(state.inventories)
    diagnose.unsuited(nodes, ask, buffers, end)
    diagnose.short_of_resources(nodes, ask, buffers, end)
    feasible.holds(nodes, ask, np.arange(end), buffers.fits)
    diagnose.short_of_devices(nodes, ask, buffers, end)
    diagnose.best_share(nodes, ask, buffers, end)
    return _Lacks(state, request, ask, buffers.codes[:end].copy(), buffers.numbers[:end].copy())


class _Lacks:
    """What the kernels found for one request: per slot a code of `kernels.diagnose` and a number."""

    def __init__(
        self,
        state: ClusterState,
        request: Request,
        ask: Ask,
        codes: NDArray[np.int64],
        numbers: NDArray[np.int64],
    ) -> None:
        self.codes = codes
        self._numbers = numbers
        self.state = state
        self._request = request
        self._ask = ask

    def code(self, found: int) -> Code | None:
        """The reason behind a kernel's code, None where the request fits."""
        if found == diagnose.FITS:
            return None
        if found >= diagnose.FIRST_COLUMN:
            column = int(self._ask.columns[found - diagnose.FIRST_COLUMN])
            return _COLUMN_CODES.get(column, Code.INSUFFICIENT_RESOURCE)
        if found == diagnose.HAS_NONE:
            if self._request.demand is Demand.WHOLE:
                return Code.INSUFFICIENT_WHOLE_GPUS
            by_fraction = self._request.share_milli > 0
            return Code.INSUFFICIENT_GPU_SHARE if by_fraction else Code.INSUFFICIENT_GPU_MEMORY
        return _DEVICE_CODES[found]

    def suited(self) -> NDArray[np.bool_]:
        """bool[slots]: nodes that have the kinds of things asked for at all."""
        nodes, end = self.state.arrays, len(self.codes)
        extended = self._ask.columns[self._ask.columns >= layout.FIRST_EXTENDED]
        suited = np.asarray((nodes.total[:end, extended] > 0).all(axis=1))
        if self._request.demand is Demand.SHARE:
            suited &= nodes.accelerated[:end]
        return suited

    def numbers(self, own: NDArray[np.bool_]) -> dict[str, int | str]:
        """Need and best of the commonest lack among the marked slots (bool[slots]), which share one reason."""
        lacks = self.codes[own]
        if not lacks.size:
            return {}
        found = int(np.bincount(lacks).argmax())
        return self._words(found, int(self._numbers[own][lacks == found].max()))

    def _words(self, found: int, most: int) -> dict[str, int | str]:
        request = self._request
        if found >= diagnose.FIRST_COLUMN:
            return self._column_words(found - diagnose.FIRST_COLUMN, most)
        if request.demand is Demand.WHOLE:
            return {"resource": request.device_resource, "need": request.device_count, "free": most}
        if found == diagnose.TOO_FEW_DEVICES:
            return {"need": request.device_count, "have": most}
        if found == diagnose.UNKNOWN_MEMORY:
            return {"need_mib": request.share_memory_mib}
        if found in (diagnose.VIRTUAL_SHARE, diagnose.NO_SHARES):
            return {}
        words: dict[str, int | str] = {"need_milli": request.share_milli, "best_milli": most}
        if request.share_milli == 0:
            words = {"need_mib": request.share_memory_mib, "most_free_mib": most}
        return words | ({"devices": request.device_count} if request.device_count > 1 else {})

    def _column_words(self, k: int, most: int) -> dict[str, int | str]:
        column, amount = int(self._ask.columns[k]), int(self._ask.amounts[k])
        if column in _COLUMN_WORDS:
            need, free = _COLUMN_WORDS[column]
            return {need: amount, free: most}
        name = next(name for name, at in self.state.columns.items() if at == column)
        return {"resource": name, "need": amount, "free": most}
