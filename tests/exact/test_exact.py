"""Exact placement of gangs against trying everything."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduler import exact
from scheduler.exact import Outcome, Problem, node_groups, twins
from scheduler.exact.model import Model
from scheduler.exact.room import narrowed
from tests.exact import gangs

LIMIT = 10.0
FEW = settings(max_examples=150, deadline=None)
GIB = 1 << 30


@given(problem=gangs.problems())
@FEW
def test_it_finds_a_placement_exactly_where_there_is_one(problem: Problem) -> None:
    """Neither misses one nor makes one up."""
    possible = next(gangs.placements(problem), None) is not None
    found = exact.solve(problem, limit=LIMIT)
    assert found.outcome is (Outcome.FOUND if possible else Outcome.IMPOSSIBLE)
    if found.counts is not None:
        assert gangs.fault(problem, found.counts) is None
    assert (found.counts is not None) is possible


@given(problem=gangs.problems())
@settings(max_examples=60, deadline=None)
def test_the_same_where_mixtures_are_too_many_to_list(problem: Problem) -> None:
    """Each node by itself, with resources as inequalities."""
    possible = next(gangs.placements(problem), None) is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_groups, "MOST_MIXTURES", 1)
        found = exact.solve(problem, limit=LIMIT)
    assert found.outcome is (Outcome.FOUND if possible else Outcome.IMPOSSIBLE)
    assert found.counts is None or gangs.fault(problem, found.counts) is None


@given(problem=gangs.problems())
@settings(max_examples=300, deadline=None)
def test_could_fit_never_says_no_where_there_is_a_placement(problem: Problem) -> None:
    """A necessary condition."""
    assume(next(gangs.placements(problem), None) is not None)
    assert exact.could_fit(problem)


@given(problem=gangs.problems(), data=st.data())
@FEW
def test_wishes_use_the_fewest_domains(problem: Problem, data: st.DataObject) -> None:
    """Of all placements."""
    levels = data.draw(gangs.trees(len(problem.free)))
    kinds = tuple(range(len(problem.wanted)))
    wishes = tuple(gangs.together(kinds, level) for level in levels[data.draw(st.integers(0, 1)) :])
    costs = [sum(gangs.domains_used(wish, counts) for wish in wishes) for counts in gangs.placements(problem)]
    found = exact.solve(problem, limit=LIMIT, few=wishes)
    if found.counts is None:
        assert not costs
        return
    assert gangs.fault(problem, found.counts) is None
    assert found.proven
    assert sum(gangs.domains_used(wish, found.counts) for wish in wishes) == min(costs)


@given(problem=gangs.problems())
@settings(max_examples=30, deadline=None)
def test_the_same_question_has_the_same_answer(problem: Problem) -> None:
    """Also the same placement."""
    first, second = exact.solve(problem, limit=LIMIT), exact.solve(problem, limit=LIMIT)
    assert first.outcome is second.outcome
    assert (first.counts is None) is (second.counts is None)
    if first.counts is not None and second.counts is not None:
        assert np.array_equal(first.counts, second.counts)


def racks(count: int, nodes: int, gpus: list[int], kinds: list[tuple[int, int]], *, one_rack: bool = True) -> Problem:
    """Racks of `nodes` nodes with so many GPUs in turn, and kinds as (GPUs, pods)."""
    total = count * nodes
    free = np.array([[gpus[i % len(gpus)], 10**6, 1000 * GIB] for i in range(total)], np.int64)
    wanted = [gangs.wanted([size, 4000, 64 * GIB], pods, [True] * total) for size, pods in kinds]
    group = gangs.together(tuple(range(len(wanted))), [i // nodes for i in range(total)])
    return Problem(free, tuple(wanted), (group,) if one_rack else ())


def test_what_only_a_search_can_tell() -> None:
    """7 and 5 free hold five 2s in sum, but not beside one another."""
    assert exact.solve(racks(1, 2, [7, 5], [(2, 5)]), limit=LIMIT).outcome is Outcome.FOUND
    assert exact.solve(racks(1, 2, [7, 5], [(3, 2), (2, 3)]), limit=LIMIT).outcome is Outcome.FOUND
    hopeless = racks(1, 2, [7, 5], [(4, 1), (2, 4)])
    assert exact.could_fit(hopeless)
    assert exact.solve(hopeless, limit=LIMIT).outcome is Outcome.IMPOSSIBLE


def test_subgroups_in_racks_of_their_own_within_one_block() -> None:
    """Eight leaders with their workers, each group in one rack, all in one of two blocks."""
    nodes = 2 * 4 * 4
    every = [True] * nodes
    free = np.full((nodes, 1), 8, np.int64)
    free[:16] = 7
    kinds = [gangs.wanted([1], 1, every) if i % 2 == 0 else gangs.wanted([5], 2, every) for i in range(16)]
    in_rack, in_block = [i // 4 for i in range(nodes)], [i // 16 for i in range(nodes)]
    groups = [gangs.together((2 * i, 2 * i + 1), in_rack) for i in range(8)]
    problem = Problem(free, tuple(kinds), (gangs.together(tuple(range(16)), in_block), *groups))
    found = exact.solve(problem, limit=LIMIT, few=(gangs.together(tuple(range(16)), in_rack),))
    assert found.counts is not None
    assert gangs.fault(problem, found.counts) is None
    assert found.proven


def tangled() -> Problem:
    """Four sizes on nodes that none of them fills, nearly full."""
    return racks(40, 12, [7, 8, 5, 6, 3], [(3, 240), (2, 235), (5, 112), (4, 69)], one_rack=False)


def test_a_tiny_limit_gives_up() -> None:
    """Whatever it had found out by then."""
    assert exact.solve(tangled(), limit=1e-9).outcome is Outcome.GAVE_UP


def test_equal_groups_are_one_question_however_many() -> None:
    """Forty replicas, each in one rack, are four variables a rack; others are not merged with them."""
    problem = racks(12, 4, [8], [(3, 2), (2, 1)] * 40 + [(3, 2), (1, 1)], one_rack=False)
    in_rack = [i // 4 for i in range(48)]
    problem = replace(problem, together=tuple(gangs.together((2 * i, 2 * i + 1), in_rack) for i in range(41)))
    merged = twins.merge(problem)
    assert [
        (each.count, len(members)) for each, members in zip(merged.problem.wanted, merged.members, strict=True)
    ] == [
        (40, 40),
        (80, 40),
        (2, 1),
        (1, 1),
    ]
    assert [group.times for group in merged.problem.together] == [40, 1]
    found = exact.solve(problem, limit=LIMIT)
    assert found.counts is not None
    assert gangs.fault(problem, found.counts) is None


def test_groups_stay_whole_where_domains_are_interleaved() -> None:
    """Two groups of three pods: each rack holds just one of them, on every second node."""
    every = [True] * 6
    kinds = tuple(gangs.wanted([1], 3, every) for _ in range(2))
    groups = tuple(gangs.together((kind,), [0, 1, 0, 1, 0, 1]) for kind in range(2))
    problem = Problem(np.ones((6, 1), np.int64), kinds, groups)
    found = exact.solve(problem, limit=LIMIT)
    assert found.counts is not None
    assert gangs.fault(problem, found.counts) is None


def test_nodes_that_allow_different_pods_are_not_alike() -> None:
    """Even where the pods are of one size."""
    kinds = (gangs.wanted([1], 2, [True, False]), gangs.wanted([1], 2, [False, True]))
    found = exact.solve(Problem(np.array([[3], [3]]), kinds), limit=LIMIT)
    assert found.counts is not None
    assert found.counts.tolist() == [[2, 0], [0, 2]]


def test_a_model_beyond_the_size_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without asking the solver."""
    problem = racks(4, 4, [8], [(3, 4)])
    assert exact.solve(problem, limit=LIMIT).outcome is Outcome.FOUND
    monkeypatch.setattr(exact, "MOST_VARIABLES", 3)
    assert exact.solve(problem, limit=LIMIT).outcome is Outcome.GAVE_UP


def test_alike_nodes_become_one_group() -> None:
    """Free amounts that differ without a difference for these pods do not count."""
    problem = racks(2, 8, [8], [(3, 4), (2, 4)])
    problem.free[:, 1] += np.arange(16) * 100
    room = narrowed(problem)
    groups = node_groups.alike(problem, room, node_groups.sizes_of(problem), problem.together)
    assert [group.nodes.tolist() for group in groups] == [list(range(8)), list(range(8, 16))]
    assert groups[0].mixtures is not None
    # the smaller size first, as pods per node
    assert sorted(groups[0].mixtures.tolist()) == [[1, 2], [2, 1], [4, 0]]


def test_others_run_while_it_solves() -> None:
    """The search holds no GIL: another thread keeps counting."""
    problem = replace(tangled(), wanted=racks(40, 12, [1], [(3, 140), (2, 101), (5, 32), (4, 29)]).wanted)
    racks_wish = gangs.together((0, 1, 2, 3), [i // 12 for i in range(480)])
    groups = node_groups.alike(problem, narrowed(problem), node_groups.sizes_of(problem), (racks_wish,))
    ready = Model(problem, node_groups.sizes_of(problem), groups)
    ready.use_few([racks_wish])
    gaps, stop = [0.0], threading.Event()

    def watch() -> None:
        last = time.perf_counter()
        while not stop.is_set():
            time.sleep(0.001)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    watcher = threading.Thread(target=watch)
    watcher.start()
    begin = time.perf_counter()
    ready.solve(0.5)
    took = time.perf_counter() - begin
    stop.set()
    watcher.join()
    assert took > 0.1
    assert max(gaps) < took / 2


def test_importing_it_does_not_import_the_solver() -> None:
    """The command line starts without it."""
    code = "import sys, scheduler.exact; sys.exit('ortools' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
