"""Sweeps on clusters: the same results as at home, and clear words where there is no cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from scheduler.simulate.cluster_workers import DaskWorkers, workers_at
from scheduler.simulate.sweep import sweep
from scheduler.simulate.task import SweepError, Task, inflations, run_task
from scheduler.simulate.workers import LocalWorkers
from tests.simulate import fake_runs
from tests.simulate.tiny_openb import tiny_openb

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_openb(tmp_path / "openb")


@pytest.fixture(scope="module")
def dask() -> Iterator[str]:
    """The address of a Dask scheduler with one worker process."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        yield str(cluster.scheduler_address)


@pytest.fixture
def ray_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a Ray cluster with one worker process; in its own process, since it never quite leaves one."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", uuid4().hex)
    pytest.importorskip("ray", reason="ray is not installed")
    program = (
        "import ray\n"
        "print(ray.init(num_cpus=1, include_dashboard=False).address_info['gcs_address'], flush=True)\n"
        "input()\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate("\n", timeout=60)


def tasks(*seeds: int) -> list[Task]:
    return list(inflations(["default"], ["bestfit"], seeds))


def test_addresses_say_what_is_there() -> None:
    local = workers_at(None, 3)
    assert isinstance(local, LocalWorkers)
    assert local.processes == 3
    assert isinstance(workers_at("tcp://127.0.0.1:8786"), DaskWorkers)
    for address in ("127.0.0.1:8786", "http://host", "tcp://", "rays://host:1"):
        with pytest.raises(SweepError, match="is no cluster: tcp://HOST:PORT"):
            workers_at(address)
    with pytest.raises(SweepError, match="number of workers"):
        workers_at("tcp://127.0.0.1:8786", 3)


@pytest.mark.parametrize(
    ("address", "module", "extra"),
    [("tcp://h:1", "distributed", "dask"), ("ray://h:1", "ray", "ray"), ("ray:h:1", "ray", "ray")],
)
def test_what_is_not_installed_is_named(address: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SweepError, match=rf"pip install 'tangram-scheduler\[{extra}\]'"):
        workers_at(address)


def test_dask_runs_simulations(dask: str, folder: Path, tmp_path: Path) -> None:
    found = sweep(tasks(1, 2), tmp_path / "sweep.jsonl", folder=folder, workers=workers_at(dask))
    assert not found.failures
    for task, result in found.results.items():
        assert result | {"wallSeconds": 0} == run_task(task, folder) | {"wallSeconds": 0}


def test_dask_tells_of_failures_and_goes_on(dask: str, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    seeds = (1, fake_runs.FAILING_SEED, 2)
    found = sweep(tasks(*seeds), path, folder=folder, workers=workers_at(dask), run=fake_runs.failing)
    assert [task.seed for task in found.results] == [1, 2]
    assert list(found.failures.values()) == ["RuntimeError: thirteen is out of luck"]
    assert sweep(tasks(*seeds), path, folder=folder, workers=workers_at(dask), run=fake_runs.noted).ran == 1
    assert len(fake_runs.ran(folder)) == 3


def test_without_a_dask_scheduler_the_sweep_does_not_begin(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.simulate.cluster_workers.DASK_PATIENCE", "1s")
    with pytest.raises(SweepError, match="no Dask scheduler answers at tcp://127"):
        sweep(tasks(1), tmp_path / "sweep.jsonl", folder=folder, workers=workers_at("tcp://127.0.0.1:1"))


def test_ray_runs_simulations_and_tells_of_failures(ray_cluster: str, folder: Path, tmp_path: Path) -> None:
    found = sweep(tasks(1, 2), tmp_path / "real.jsonl", folder=folder, workers=workers_at(f"ray:{ray_cluster}"))
    assert not found.failures
    for task, result in found.results.items():
        assert result | {"wallSeconds": 0} == run_task(task, folder) | {"wallSeconds": 0}
    seeds = (1, fake_runs.FAILING_SEED, 2)
    workers = workers_at(f"ray:{ray_cluster}")
    found = sweep(tasks(*seeds), tmp_path / "fake.jsonl", folder=folder, workers=workers, run=fake_runs.failing)
    assert [task.seed for task in found.results] == [1, 2]
    assert list(found.failures.values()) == ["RuntimeError: thirteen is out of luck"]
