"""Nodes that are alike: those that hold the same mixtures of pods and stand in the same domains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.exact.problem import Problem, Together

MOST_MIXTURES: Final = 4096
"""More different mixtures of pods that fit on some node are not listed."""


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """The different sizes of pods; kinds of one size differ in where they may be."""

    of: NDArray[np.intp]
    """[W]: the size of each kind."""
    amounts: NDArray[np.int64]
    """[sizes, R]"""


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """Nodes that are alike. Which of them gets which mixture does not matter."""

    nodes: NDArray[np.intp]
    """Indices, rising."""
    kinds: NDArray[np.intp]
    """The kinds of pods that may be here."""
    mixtures: NDArray[np.int64] | None
    """[m, sizes]: the pods that one node holds at most, as mixtures none of which is within another.

    None: too many to list; it is a single node then.
    """


def sizes_of(problem: Problem) -> Sizes:
    """The sizes of the pods."""
    amounts, of = np.unique([wanted.amounts for wanted in problem.wanted], axis=0, return_inverse=True)
    return Sizes(of.reshape(-1), amounts)


def alike(problem: Problem, room: NDArray[np.int64], sizes: Sizes, groups: tuple[Together, ...]) -> list[Alike]:
    """The useful nodes, sorted into what is alike in everything that the problem and the groups can tell apart.

    `room` is int64[W, N]. Every mixture that fits on a node is within one of those listed, so nothing is lost.
    """
    useful = np.flatnonzero(room.any(axis=0))
    here = room[:, useful] > 0
    most = _most(problem, here, sizes)
    free = _free_that_matters(problem, useful)
    rows, row_of = np.unique(np.hstack([free, most]), axis=0, return_inverse=True)
    row_of = row_of.reshape(-1)
    listed = _mixtures(sizes.amounts, rows[:, : free.shape[1]], rows[:, free.shape[1] :])
    if listed is None:
        return [Alike(useful[i : i + 1], np.flatnonzero(here[:, i]), None) for i in range(len(useful))]
    mixtures, largest = listed
    kind_of_row = np.unique(np.packbits(largest, axis=0), axis=1, return_inverse=True)[1].reshape(-1)
    keys = [kind_of_row[row_of], *here, *(group.domains[useful] for group in groups)]
    first, place = np.unique(np.stack(keys, axis=1), axis=0, return_index=True, return_inverse=True)[1:]
    members = np.split(np.argsort(place.reshape(-1), kind="stable"), np.cumsum(np.bincount(place.reshape(-1)))[:-1])
    found = [
        Alike(useful[nodes], np.flatnonzero(here[:, i]), mixtures[largest[:, row_of[i]]])
        for i, nodes in zip(first, members, strict=True)
    ]
    return sorted(found, key=lambda each: int(each.nodes[0]))


def _free_that_matters(problem: Problem, nodes: NDArray[np.intp]) -> NDArray[np.int64]:
    """int64[nodes, R]: what is free of what is asked for, at most as much as all pods take; 0 of everything else."""
    whole = [
        sum(wanted.count * int(wanted.amounts[resource]) for wanted in problem.wanted)
        for resource in range(problem.free.shape[1])
    ]
    return np.clip(problem.free[nodes], 0, np.array([min(amount, 1 << 62) for amount in whole], np.int64))


def _most(problem: Problem, here: NDArray[np.bool_], sizes: Sizes) -> NDArray[np.int64]:
    """int64[nodes, sizes]: how many pods of each size there are that may be on a node."""
    counts = np.array([wanted.count for wanted in problem.wanted], np.int64)
    most = np.zeros((len(sizes.amounts), here.shape[1]), np.int64)
    np.add.at(most, sizes.of, here * counts[:, np.newaxis])
    return most.T


def _mixtures(
    amounts: NDArray[np.int64], free: NDArray[np.int64], most: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]] | None:
    """The mixtures (int64[m, sizes]) that fit on some row, and on which they fit and cannot grow (bool[m, rows]).

    They grow by one pod at a time, of the same size or a later one. None where there are more than MOST_MIXTURES.
    """
    size_count = len(amounts)
    layer = np.zeros((1, size_count), np.int64)
    fits = np.ones((1, len(free)), np.bool_)
    all_layers, all_fits, listed = [layer], [fits], 1
    while len(layer):
        grown, grown_fits = [], []
        for size in range(size_count):
            # a mixture of several sizes is reached in one way only
            may_grow = ~layer[:, size + 1 :].any(axis=1)
            more = layer[may_grow]
            more[:, size] += 1
            fit = fits[may_grow] & (more[:, size, np.newaxis] <= most[:, size])
            for resource in np.flatnonzero(amounts[size] > 0):
                fit &= (more @ amounts[:, resource])[:, np.newaxis] <= free[:, resource]
            keep = fit.any(axis=1)
            grown.append(more[keep])
            grown_fits.append(fit[keep])
        layer, fits = np.concatenate(grown), np.concatenate(grown_fits)
        listed += len(layer)
        if listed > MOST_MIXTURES:
            return None
        all_layers.append(layer)
        all_fits.append(fits)
    mixtures, all_fitting = np.concatenate(all_layers), np.concatenate(all_fits)
    return mixtures, _largest(mixtures, all_fitting)


def _largest(mixtures: NDArray[np.int64], fits: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """bool[m, rows]: the mixture fits on the row, and none that has one pod more does."""
    index = {mixture.tobytes(): i for i, mixture in enumerate(mixtures)}
    largest = fits.copy()
    for size in range(mixtures.shape[1]):
        more = mixtures.copy()
        more[:, size] += 1
        pairs = [(i, index[key.tobytes()]) for i, key in enumerate(more) if key.tobytes() in index]
        smaller, larger = np.array(pairs, np.intp).reshape(-1, 2).T
        largest[smaller] &= ~fits[larger]
    return largest
