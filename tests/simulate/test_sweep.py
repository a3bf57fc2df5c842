"""Sweeps: every task once, kept as they finish, whatever goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from scheduler.policy import PolicyError
from scheduler.simulate.openb import TraceError
from scheduler.simulate.store import Store
from scheduler.simulate.sweep import sweep
from scheduler.simulate.task import SweepError, Task, check, churns, inflations, run_task
from scheduler.simulate.workers import Call, Done, LocalWorkers, cores
from tests.simulate import fake_runs
from tests.simulate.tiny_openb import tiny_openb

ROOT = Path(__file__).parents[2]


class AtHand:
    """Workers in this process."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.closed = False
        self._stop_after = stop_after
        self._call: Call | None = None
        self._tasks: Sequence[Task] = ()

    def submit(self, call: Call, tasks: Sequence[Task]) -> None:
        self._call, self._tasks = call, tasks

    def finished(self) -> Iterator[Done]:
        assert self._call is not None
        for count, task in enumerate(self._tasks):
            if count == self._stop_after:
                raise KeyboardInterrupt
            try:
                yield Done(task, self._call(task))
            except RuntimeError as err:
                yield Done(task, None, str(err))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_openb(tmp_path / "openb", ("default", "gpuspec10"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out" / "sweep.jsonl"


def tasks(*seeds: int, policies: Sequence[str] = ("fgd",)) -> list[Task]:
    return list(inflations(["default"], policies, seeds))


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# -- tasks -------------------------------------------------------------------------------------------------------
def test_keys_tell_tasks_apart_and_are_stable() -> None:
    assert Task("inflation", "default", "rsv", 42).key == "inflation/default/rsv/seed-42"
    assert Task("inflation", "default", "rsv", 42, candidates=60).key == "inflation/default/rsv/seed-42/candidates-60"
    assert Task("churn", "default", "rsv", 0, 1.0).key == "churn/default/rsv/seed-0/load-1"
    assert Task("churn", "default", "rsv", 0, 1.3, 20).key == "churn/default/rsv/seed-0/load-1.3/candidates-20"
    many = [
        *inflations(["default"], ["rsv", "fgd"], range(3), (None, 20)),
        *churns(["default"], ["rsv"], [0], [1, 1.3]),
    ]
    assert len({task.key for task in many}) == 14


@pytest.mark.parametrize(
    ("task", "error", "words"),
    [
        (Task("deflation", "default", "rsv", 1), SweepError, "no experiment"),
        (Task("inflation", "cpu999", "rsv", 1), TraceError, "cpu250"),
        (Task("inflation", "default", "best", 1), PolicyError, "bestfit"),
        (Task("churn", "default", "rsv", 1), SweepError, "a load"),
        (Task("inflation", "default", "rsv", 1, 1.0), SweepError, "a load"),
        (Task("inflation", "default", "rsv", 1, candidates=0), SweepError, "at least one"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(
    task: Task, error: type[Exception], words: str, path: Path, folder: Path
) -> None:
    with pytest.raises(error, match=words):
        check(task)
    with pytest.raises(error):
        sweep([task], path, folder=folder)
    assert not path.exists()


def test_a_task_is_what_the_simulator_makes_of_it(folder: Path) -> None:
    result = run_task(Task("inflation", "default", "bestfit", 1), folder)
    assert (result["policy"], result["seed"], result["nodes"], result["scenario"]) == ("bestfit", 1, 6, "openb-default")
    assert result["gpuAllocationPercent"] > 50
    assert len(result["curve"]) == 131
    assert "series" not in result
    assert result["wallSeconds"] > 0
    churning = run_task(Task("churn", "gpuspec10", "rsv", 1, 0.9, 3), folder)
    assert (churning["scenario"], churning["candidates"]) == ("openb-gpuspec10-churn-0.9", 3)
    assert churning["servedPercent"] > 50


# -- files -------------------------------------------------------------------------------------------------------
def test_what_is_interrupted_goes_on_where_it_was(path: Path, folder: Path) -> None:
    workers = AtHand(stop_after=2)
    with pytest.raises(KeyboardInterrupt):
        sweep(tasks(1, 2, 3, 4), path, folder=folder, workers=workers, run=fake_runs.noted)
    assert workers.closed
    told: list[tuple[int, int, str]] = []
    found = sweep(
        tasks(1, 2, 3, 4),
        path,
        folder=folder,
        workers=AtHand(),
        run=fake_runs.noted,
        progress=lambda *news: told.append(news),
    )
    assert found.ran == 2
    assert [result["seed"] for result in found.results.values()] == [1, 2, 3, 4]
    assert fake_runs.ran(folder) == [task.key for task in tasks(1, 2, 3, 4)]
    assert told == [(3, 4, tasks(3)[0].key), (4, 4, tasks(4)[0].key)]
    assert sweep(tasks(2, 4), path, folder=folder, workers=AtHand(), run=fake_runs.noted).ran == 0


@pytest.mark.parametrize("rest", [b'{"key": "inflation/default/fgd/seed-9", "res', b'{"key"', b"\0\0\0"])
def test_a_line_without_its_end_is_run_again(rest: bytes, path: Path, folder: Path) -> None:
    sweep(tasks(1), path, folder=folder, workers=AtHand(), run=fake_runs.noted)
    with path.open("ab") as file:
        file.write(rest)
    found = sweep(tasks(1, 9), path, folder=folder, workers=AtHand(), run=fake_runs.noted)
    assert found.ran == 1
    assert [json.loads(line).get("key") for line in path.read_text().splitlines()] == [
        None,
        *(task.key for task in tasks(1, 9)),
    ]


@pytest.mark.parametrize("begun", [b"", b'{"for', b'{"format": "tangram-sweep/1", "vers'])
def test_a_file_without_its_first_line_is_begun_anew(begun: bytes, path: Path, folder: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(begun)
    assert sweep(tasks(1), path, folder=folder, workers=AtHand(), run=fake_runs.noted).ran == 1
    assert json.loads(path.read_text().splitlines()[0])["format"] == "tangram-sweep/1"


@pytest.mark.parametrize("field", ["version", "code", "traces", "format"])
def test_results_of_others_are_refused_until_told_to_begin_anew(field: str, path: Path, folder: Path) -> None:
    sweep(tasks(1, 2), path, folder=folder, workers=AtHand(), run=fake_runs.noted)
    first, *others = path.read_text().splitlines()
    header = json.loads(first)
    path.write_text("\n".join([json.dumps(header | {field: "tangram-sweep/0"}), *others]) + "\n")
    with pytest.raises(SweepError, match="begin anew"):
        sweep(tasks(1), path, folder=folder, workers=AtHand(), run=fake_runs.noted)
    assert len(path.read_text().splitlines()) == 3
    assert sweep(tasks(1), path, folder=folder, workers=AtHand(), run=fake_runs.noted, anew=True).ran == 1
    assert json.loads(path.read_text().splitlines()[0]) == header
    assert len(path.read_text().splitlines()) == 2


def test_other_files_are_left_alone(path: Path, folder: Path) -> None:
    path.parent.mkdir()
    path.write_text("a letter")
    for anew in (False, True):
        with pytest.raises(SweepError, match="no file of a sweep"):
            sweep(tasks(1), path, folder=folder, workers=AtHand(), run=fake_runs.noted, anew=anew)
    assert path.read_text() == "a letter"
    with pytest.raises(SweepError, match="Is a directory"):
        sweep(tasks(1), path.parent, folder=folder, workers=AtHand(), run=fake_runs.noted)


def test_a_broken_line_is_named(path: Path, folder: Path) -> None:
    sweep(tasks(1, 2), path, folder=folder, workers=AtHand(), run=fake_runs.noted)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "{}", lines[2]]) + "\n")
    with pytest.raises(SweepError, match="line 2: no result"):
        sweep(tasks(1, 2), path, folder=folder, workers=AtHand(), run=fake_runs.noted)


def test_two_sweeps_do_not_write_to_one_file(path: Path, folder: Path) -> None:
    from scheduler.simulate.fingerprint import fingerprint

    with (
        Store(path, fingerprint(folder)),
        pytest.raises(SweepError, match="another sweep"),
    ):
        sweep(tasks(1), path, folder=folder, workers=AtHand(), run=fake_runs.noted)


def test_without_traces_nothing_begins(path: Path, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="--data"):
        sweep(tasks(1), path, folder=tmp_path, workers=AtHand())


# -- processes ---------------------------------------------------------------------------------------------------
def test_a_process_runs_simulations(path: Path, folder: Path) -> None:
    found = sweep(tasks(1, 2, policies=("fgd", "bestfit")), path, folder=folder, workers=LocalWorkers(1))
    assert not found.failures
    assert [(task.policy, task.seed) for task in found.results] == [
        ("fgd", 1),
        ("fgd", 2),
        ("bestfit", 1),
        ("bestfit", 2),
    ]
    for task, result in found.results.items():
        assert result | {"wallSeconds": 0} == run_task(task, folder) | {"wallSeconds": 0}


def test_one_that_fails_does_not_end_the_others(path: Path, folder: Path) -> None:
    seeds = (1, fake_runs.FAILING_SEED, 2, fake_runs.DEADLY_SEED, 3)
    found = sweep(tasks(*seeds), path, folder=folder, workers=LocalWorkers(1), run=fake_runs.failing)
    assert [task.seed for task in found.results] == [1, 2, 3]
    unlucky, dead = found.failures.values()
    assert unlucky == "RuntimeError: thirteen is out of luck"
    assert "terminated abruptly" in dead
    again = sweep(tasks(*seeds), path, folder=folder, workers=LocalWorkers(1), run=fake_runs.noted)
    assert (again.ran, again.failures) == (2, {})


def test_a_worker_with_other_traces_is_found_out(path: Path, folder: Path, tmp_path: Path) -> None:
    class Elsewhere(AtHand):
        def submit(self, call: Call, tasks: Sequence[Task]) -> None:
            keywords = call.keywords | {"folder": tiny_openb(tmp_path / "other", ("default",))}  # type: ignore[attr-defined]
            super().submit(lambda task: call.func(task, **keywords), tasks)  # type: ignore[attr-defined]

    with pytest.raises(SweepError, match="install the same everywhere"):
        sweep(tasks(1), path, folder=folder, workers=Elsewhere(), run=fake_runs.noted)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_an_interrupted_sweep(number: int, path: Path, folder: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from scheduler.simulate.sweep import sweep; from scheduler.simulate.workers import LocalWorkers\n"
        "from scheduler.simulate.task import Task; from tests.simulate import fake_runs\n"
        "if __name__ == '__main__':\n"
        "    sweep([Task('inflation', 'default', 'fgd', 1)], Path(sys.argv[1]), folder=Path(sys.argv[2]),\n"
        "          workers=LocalWorkers(1), run=fake_runs.endless)\n"
    )
    script = path.with_name("run.py")
    script.parent.mkdir()
    script.write_text(program)
    command = [sys.executable, str(script), str(path), str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        noted = folder / "pid.txt"
        wait_until(lambda: noted.exists() and noted.read_text() != "")
        process.send_signal(number)
        process.wait(30)
        assert process.stderr is not None
        errors = process.stderr.read()
    wait_until(lambda: not is_alive(int(noted.read_text())))
    if number == signal.SIGINT:
        assert errors.rstrip().endswith("KeyboardInterrupt")
    assert len(path.read_text().splitlines()) == 1


def test_cores_are_those_of_this_process() -> None:
    assert LocalWorkers().processes == cores() >= 1
