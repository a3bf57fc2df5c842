"""Whether nodes have room by the counts that kube-scheduler keeps.

How kernels of this package are built, for speed: each runs over all nodes in one pass and is called from Python, since
a kernel that calls another is compiled together with it, again and again. Arrays are taken out of a tuple once, before
the loop: a look into a tuple costs a reference count, which inside the loop would cost more than the loop.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.kernels._jit import kernel


@kernel
def has_room(
    free: NDArray[np.int64],
    columns: NDArray[np.int64],
    amounts: NDArray[np.int64],
    mask: NDArray[np.bool_],
    fits: NDArray[np.bool_],
) -> None:
    """Writes to `fits` which nodes of `mask` (bool[n], n ≤ S) have the resources asked for. Looks at no device.

    `free` is int64[S, R]; `columns` and `amounts` are int64[k] as in `Ask`.
    """
    for slot in range(mask.size):
        room = mask[slot]
        if room:
            for k in range(columns.size):
                if free[slot, columns[k]] < amounts[k]:
                    room = False
                    break
        fits[slot] = room
