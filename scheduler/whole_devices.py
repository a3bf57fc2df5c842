"""Which untouched devices of a node a pod with whole devices gets: near one another where they can be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def nearest(rows: NDArray[np.intp], island: NDArray[np.int32], count: int) -> list[int]:
    """`count` of the rows (rising; `island` is that of each), from the fewest islands; rising.

    The smallest island that holds all that is missing, else the largest, and again. Equals: the lowest row. Without
    islands the lowest rows; all rows where there are not so many.
    """
    if (island == island[:1]).all():
        lowest: list[int] = rows[:count].tolist()
        return lowest
    _, first, place = np.unique(island, return_index=True, return_inverse=True)
    # in the order of their first rows
    members: list[list[int]] = [rows[place == i].tolist() for i in np.argsort(first)]
    chosen: list[int] = []
    while members and len(chosen) < count:
        missing = count - len(chosen)
        holding = [each for each in members if len(each) >= missing]
        best = min(holding, key=len) if holding else max(members, key=len)
        chosen += best[:missing]
        members.remove(best)
    return sorted(chosen)
