"""The demo on a real control plane: kube-apiserver, kube-scheduler as shipped, `tangram serve`, and fake nodes.

The same pods as in `make demo`. When they have ended, everything stays up for looking around, until Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import copy
import re
import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from extender_api.demo.accounts import Accounts
from extender_api.demo.objects import NAMESPACE, Arrival, Pace, arrivals, mistakes
from extender_api.demo.recorder import Recorder
from extender_api.demo.show import Show
from extender_api.demo.stock import CallTimes
from extender_api.demo.summary import Summary, Usage, print_summary, sum_up
from extender_api.demo.trace import read_trace
from tests.controlplane import installation
from tests.controlplane.async_kube import AsyncKube
from tests.controlplane.binaries import Binaries
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.etcd import Etcd
from tests.controlplane.fake_nodes import RUN_SECONDS, FakeNodes
from tests.controlplane.kube_scheduler import KubeScheduler
from tests.controlplane.node_models import A100, H100, L4, FakeNode, gpu_node, liqo_node
from tests.controlplane.resources import PODS
from tests.controlplane.tangram_process import TangramProcess

_FIRST_REASON: Final = re.compile(r"no node fits: .*?\d nodes?: ([^(;]*[^(; ])")
GIVE_UP_S: Final = 120.0
FINISHED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Place:
    """What runs."""

    plane: ControlPlane
    nodes: FakeNodes
    tangram: TangramProcess


def demo_nodes() -> list[FakeNode]:
    """As in the demo without a cluster; both virtual nodes are Liqo's here."""
    return [
        gpu_node("a100-1", A100),
        gpu_node("a100-2", A100),
        gpu_node("h100-1", H100),
        gpu_node("l4-1", L4),
        gpu_node("l4-2", L4),
        liqo_node("cloud-h100", gpus=8, cluster="cloud-west"),
        liqo_node("site-b", gpus=4, cluster="site-b"),
    ]


@contextlib.contextmanager
def running(logs: Path, console: Console) -> Iterator[Place]:
    """Everything up and ready; ends all of it."""
    binaries = Binaries.built()
    with contextlib.ExitStack() as stack:
        console.print("starting etcd and kube-apiserver …")
        etcd = Etcd(binaries, logs)
        stack.callback(etcd.stop)
        etcd.start()
        plane = ControlPlane(binaries, etcd, logs)
        stack.callback(plane.stop)
        plane.start()
        nodes = FakeNodes(plane)
        stack.callback(nodes.stop)
        nodes.start()
        nodes.create(*demo_nodes())
        console.print("applying manifests/base; starting Tangram and kube-scheduler …")
        rights = installation.install(plane, installation.rendered(binaries))
        plane.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        tangram = TangramProcess(rights, logs)
        stack.callback(tangram.stop)
        tangram.start()
        scheduler = KubeScheduler(
            binaries,
            rights,
            installation.SCHEDULER_CONFIGURATION,
            logs,
            extender_address=tangram.extender_address,
        )
        stack.callback(scheduler.stop)
        scheduler.start()
        yield Place(plane, nodes, tangram)


async def play(client: AsyncKube, todo: Sequence[Arrival], pace: Pace, console: Console) -> Summary:
    """Creates the pods and shows what becomes of them."""
    accounts, recorder = Accounts(), Recorder(lambda _, message: in_short(message))
    for node in demo_nodes():
        accounts.add_node(node.document)
    impossible = mistakes()
    show = Show(recorder, accounts, Usage(), len(todo), len(impossible), pace.arrive_s)
    tasks = [
        asyncio.create_task(_follow(client, recorder, accounts)),
        asyncio.create_task(_create_all(client, todo, impossible)),
    ]
    try:
        await show.until_over(console, tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    names = {pod["metadata"]["name"] for pod in impossible}
    wrong = frozenset(uid for uid, story in recorder.stories.items() if story.name in names)
    return sum_up(recorder, accounts, show.usage, CallTimes(), wrong)


def in_short(message: str) -> str:
    """The most telling reason in a sentence of Tangram's, without numbers."""
    found = _FIRST_REASON.match(message)
    return found[1] if found else message


async def _follow(client: AsyncKube, recorder: Recorder, accounts: Accounts) -> None:
    """Keeps the stories and the books by the watch."""
    async for kind, pod in client.follow(PODS, f"metadata.namespace={NAMESPACE}"):
        document = {**pod, "kind": "Pod"}
        recorder.changed("DELETED" if kind == "DELETED" else "MODIFIED", document)
        uid, phase = pod["metadata"]["uid"], pod["status"].get("phase")
        if kind == "DELETED" or phase in FINISHED:
            accounts.release(uid)
        elif pod["spec"].get("nodeName") and not accounts.holds(uid):
            accounts.admit(document)


async def _create_all(client: AsyncKube, todo: Sequence[Arrival], impossible: Sequence[dict[str, Any]]) -> None:
    """Creates every pod at its time; then ends after a while, which ends the run."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    await client.create_all(impossible)
    async with asyncio.TaskGroup() as group:
        for arrival in todo:
            await asyncio.sleep(max(start + arrival.at_s - loop.time(), 0))
            pod = copy.deepcopy(arrival.pod)
            pod["metadata"]["annotations"][RUN_SECONDS] = f"{arrival.runs_s:.2f}"
            group.create_task(client.create(pod))
    await asyncio.sleep(GIVE_UP_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.demo_cluster", description=__doc__)
    parser.add_argument("--pods", type=int, default=400, help="how many pods of the trace (%(default)s)")
    parser.add_argument("--seconds", type=float, default=Pace().arrive_s, help="within how many they come")
    parser.add_argument("--leave", action="store_true", help="end everything when the pods have ended")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(options.pods, options.seconds, stay=not options.leave)
    except KeyboardInterrupt:
        return 130


def run(pods: int, seconds: float, *, stay: bool) -> int:
    """Starts everything, plays the demo, waits for Ctrl-C if `stay`, ends everything; the exit status."""
    console = Console(highlight=False)
    logs = Path(tempfile.mkdtemp(prefix="tangram-demo-"))
    pace = Pace(arrive_s=seconds)
    todo = arrivals(read_trace(limit=pods), pace)
    with running(logs, console) as place:
        kubeconfig = place.plane.admin_kubeconfig
        console.print(f"logs in {logs}; kubeconfig {kubeconfig}", soft_wrap=True)
        summary = place.plane.kube.loop.run(play(place.plane.kube.client, todo, pace, console))
        print_summary(console, summary)
        for refusal in place.nodes.refusals:
            console.print(f"refused: {refusal}", markup=False)
        if stay:
            _wait(console, place, kubeconfig)
        return 0 if summary.ok and not place.nodes.refusals else 1


def _wait(console: Console, place: Place, kubeconfig: Path) -> None:
    console.print("\nThe cluster stays up until Ctrl-C. Look at it with")
    console.print(f"  export KUBECONFIG={kubeconfig}", soft_wrap=True)
    console.print(f"  {Binaries.built().path('kubectl')} get pods -n {NAMESPACE} -o wide", soft_wrap=True)
    console.print(f"  tangram nodes --server {place.tangram.ops_url}", soft_wrap=True)
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


if __name__ == "__main__":
    raise SystemExit(main())
