"""Fixtures that several test folders share: a real control plane and the processes that work on it.

Tests that use them carry the marker `controlplane`. Logs of a failed test are kept and shown at their end.
"""

from __future__ import annotations

import itertools
import re
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from tests.controlplane import build, installation
from tests.controlplane.binaries import Binaries
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.etcd import Etcd
from tests.controlplane.fake_nodes import FakeNodes
from tests.controlplane.kube import Kube
from tests.controlplane.kube_scheduler import PLAIN_CONFIGURATION, KubeScheduler
from tests.controlplane.tangram_process import TangramProcess

NewControlPlane = Callable[..., ControlPlane]
NewFakeNodes = Callable[..., FakeNodes]
NewTangram = Callable[..., TangramProcess]
NewKubeScheduler = Callable[..., KubeScheduler]

MARKER: Final = "controlplane"
_BINARIES: Final = pytest.StashKey[Binaries]()
_LOGS: Final = pytest.StashKey[Path]()
_TAIL_LINES: Final = 25
_numbers: Final = itertools.count(1)


# -- the run -----------------------------------------------------------------------------------------------------
def pytest_configure() -> None:
    """A run that is told to end still ends the processes it started."""

    def end(number: int, _frame: FrameType | None) -> None:
        pytest.exit("told to end", returncode=128 + number)

    signal.signal(signal.SIGTERM, end)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without the marker `make test-unit` would build Kubernetes."""
    for item in items:
        if "binaries" in getattr(item, "fixturenames", ()) and not item.get_closest_marker(MARKER):
            raise pytest.UsageError(f"{item.nodeid} uses the Kubernetes binaries: mark it with {MARKER}")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds the binaries before the first test that needs them, where no test's time-out runs."""
    wanted = any(item.get_closest_marker(MARKER) for item in session.items)
    if not wanted or session.config.option.collectonly:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        session.config.stash[_BINARIES] = Binaries(build.ensure())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows where the logs of a failed test are, and their ends."""
    report = yield
    logs = item.stash.get(_LOGS, None)
    if report.failed and logs is not None:
        for log in sorted(logs.glob("*.log")):
            lines = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
            report.sections.append((f"{log}, its end", "\n".join(lines)))
    return report


@pytest.fixture(scope="session")
def binaries(pytestconfig: pytest.Config) -> Binaries:
    """etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl."""
    return pytestconfig.stash[_BINARIES]


@pytest.fixture(scope="session")
def log_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the logs of this run; pytest keeps those of its last runs."""
    return tmp_path_factory.mktemp("logs", numbered=False)


@pytest.fixture
def logs(request: pytest.FixtureRequest, log_root: Path) -> Path:
    """Folder of the logs of this test."""
    folder = log_root / f"{next(_numbers):03}-{re.sub(r'[^A-Za-z0-9]+', '-', request.node.name)[:60]}"
    folder.mkdir()
    request.node.stash[_LOGS] = folder
    return folder


# -- control planes ----------------------------------------------------------------------------------------------
@pytest.fixture(scope="session")
def etcd(binaries: Binaries, log_root: Path) -> Iterator[Etcd]:
    """One etcd for all control planes of the run."""
    with ExitStack() as stack:
        server = Etcd(binaries, log_root)
        stack.callback(server.stop)
        server.start()
        yield server


@pytest.fixture(scope="session")
def shared_control_plane(binaries: Binaries, etcd: Etcd, log_root: Path) -> Iterator[ControlPlane]:
    """The control plane behind `control_plane`; tests use that one."""
    with ExitStack() as stack:
        plane = ControlPlane(binaries, etcd, log_root)
        stack.callback(plane.stop)
        plane.start()
        yield plane


@pytest.fixture
def control_plane(shared_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A running control plane without nodes and pods, shared by the tests of the run one after the other.

    What else a test leaves in it (policies, classes, definitions) is the next test's to live with: a test to which
    that matters takes `new_control_plane`.
    """
    yield shared_control_plane
    shared_control_plane.wipe()


@pytest.fixture
def new_control_plane(binaries: Binaries, etcd: Etcd, logs: Path) -> Iterator[NewControlPlane]:
    """Starts further control planes, empty ones, with the keywords of ControlPlane; they end with the test."""
    with ExitStack() as stack:

        def start(**options: Any) -> ControlPlane:
            plane = ControlPlane(binaries, etcd, logs, **options)
            stack.callback(plane.stop)
            plane.start()
            return plane

        yield start


@pytest.fixture
def kube(control_plane: ControlPlane) -> Kube:
    """A client with all rights."""
    return control_plane.kube


@pytest.fixture
def namespace(kube: Kube) -> str:
    """A namespace that no other test uses."""
    name = f"test-{next(_numbers)}"
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


# -- what works on them ------------------------------------------------------------------------------------------
@pytest.fixture
def new_fake_nodes(new_control_plane: NewControlPlane) -> Iterator[NewFakeNodes]:
    """Starts fake nodes on a control plane (and ends before it does), with the keywords of FakeNodes.

    At the end the test fails if a node refused a pod, unless it called `expect_refusals`.
    """
    with ExitStack() as stack:

        def start(control_plane: ControlPlane, **options: Any) -> FakeNodes:
            nodes = FakeNodes(control_plane, **options)
            stack.callback(nodes.check)
            stack.callback(nodes.stop)
            nodes.start()
            return nodes

        yield start


@pytest.fixture
def fake_nodes(control_plane: ControlPlane, new_fake_nodes: NewFakeNodes) -> FakeNodes:
    """Plays the nodes of `control_plane`; the test creates them."""
    return new_fake_nodes(control_plane)


@pytest.fixture
def shipped_rights(control_plane: ControlPlane, binaries: Binaries) -> Path:
    """The shipped manifests, applied; the kubeconfig of their service account, which has no other rights."""
    return installation.install(control_plane, installation.rendered(binaries))


@pytest.fixture
def new_tangram(logs: Path) -> Iterator[NewTangram]:
    """Starts Tangram with a kubeconfig and the keywords of TangramProcess; it ends with the test."""
    with ExitStack() as stack:

        def start(kubeconfig: Path, **options: Any) -> TangramProcess:
            process = TangramProcess(kubeconfig, logs, **options)
            stack.callback(process.stop)
            process.start()
            return process

        yield start


@pytest.fixture
def tangram(shipped_rights: Path, new_tangram: NewTangram) -> TangramProcess:
    """Tangram in a process of its own, with the shipped rights."""
    return new_tangram(shipped_rights)


@pytest.fixture
def new_kube_scheduler(binaries: Binaries, logs: Path) -> Iterator[NewKubeScheduler]:
    """Starts kube-scheduler with a kubeconfig, a configuration and the keywords of KubeScheduler."""
    with ExitStack() as stack:

        def start(kubeconfig: Path, configuration: Path | dict[str, Any], **options: Any) -> KubeScheduler:
            scheduler = KubeScheduler(binaries, kubeconfig, configuration, logs, **options)
            stack.callback(scheduler.stop)
            scheduler.start()
            return scheduler

        yield start


@pytest.fixture
def kube_scheduler(
    shipped_rights: Path, tangram: TangramProcess, new_kube_scheduler: NewKubeScheduler
) -> KubeScheduler:
    """kube-scheduler as shipped, beside `tangram`."""
    return new_kube_scheduler(
        shipped_rights,
        installation.SCHEDULER_CONFIGURATION,
        extender_address=tangram.extender_address,
    )


@pytest.fixture
def stock_scheduler(control_plane: ControlPlane, new_kube_scheduler: NewKubeScheduler) -> KubeScheduler:
    """kube-scheduler as Kubernetes has it: the default profile, no extender."""
    return new_kube_scheduler(control_plane.scheduler_kubeconfig, PLAIN_CONFIGURATION, name="stock-scheduler")
