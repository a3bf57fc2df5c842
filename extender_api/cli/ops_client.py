"""Asking a running Tangram: its ops API, directly or through the API server's proxy.

Through the API server the ops Service is asked first, and any replica may answer. Only the one that acts knows the
plans, so a standby's answer is good enough only when none of the pods behind the Service has a better one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from extender_api.cli import connection, output
from extender_api.errors import TangramError

if TYPE_CHECKING:
    from extender_api.cluster.answer import Answer
    from extender_api.cluster.client import ClusterClient

SERVICE: Final = "tangram"
SERVICE_PATH: Final = "/api/v1/namespaces/{namespace}/services/{service}:ops/proxy{path}"
PODS_PATH: Final = "/api/v1/namespaces/{namespace}/pods"
POD_PATH: Final = PODS_PATH + "/{pod}:{port}/proxy{path}"
PODS_SELECTOR: Final = "app.kubernetes.io/name=tangram"
PORT_NAME: Final = "ops"
REPLICAS_ASKED: Final = 8
REPLICA_TIMEOUT_S: Final = 5.0
STANDBY: Final = "answered by the standby replica, which knows no plans"
DEFAULT_SERVER: Final = "http://127.0.0.1:8889"
TIMEOUT_S: Final = 30.0


class OpsUnreachable(TangramError):
    """The ops API could not be reached or did not answer as it should."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to ask, and in which form to answer."""
    parser.add_argument(
        "--server", metavar="URL",
        help=f"ops address of Tangram, e.g. {DEFAULT_SERVER} (the default where there is no kubeconfig; where there is "
        f"one, the Service {SERVICE} is asked through the API server)",
    )  # fmt: skip
    connection.add_arguments(parser)
    parser.add_argument(
        "--tangram-namespace", metavar="NAME", default="tangram-system", help="where Tangram runs (tangram-system)"
    )
    output.add_arguments(parser)


def ask(arguments: argparse.Namespace, *path: str) -> tuple[int, Any]:
    """HTTP status and decoded JSON of a GET of `/api/v1/` and the parts of the path. Raises OpsUnreachable."""
    return asyncio.run(_ask(arguments, "/api/v1/" + "/".join(quote(part, safe="") for part in path)))


async def _ask(arguments: argparse.Namespace, path: str) -> tuple[int, Any]:
    if arguments.server is None and _has_kubeconfig(arguments):
        return await _through_api_server(arguments, path)
    return await _directly(arguments.server or DEFAULT_SERVER, path)


async def _directly(server: str, path: str) -> tuple[int, Any]:
    import aiohttp

    server = server.rstrip("/")
    try:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(server + path) as answer:
            return answer.status, _decoded(await answer.read(), server)
    except (aiohttp.ClientError, TimeoutError, ValueError) as err:
        raise OpsUnreachable(
            f"no Tangram answers at {server} ({err or type(err).__name__}): give --server URL, or --kubeconfig FILE"
        ) from None


async def _through_api_server(arguments: argparse.Namespace, path: str) -> tuple[int, Any]:
    from extender_api.cluster.access import AccessError
    from extender_api.cluster.answer import Unreachable
    from extender_api.cluster.client import ClientSettings, ClusterClient

    namespace = arguments.tangram_namespace
    try:
        settings = ClientSettings(kubeconfig=arguments.kubeconfig, context=arguments.context, timeout_s=TIMEOUT_S)
        async with await ClusterClient.connect(settings) as client:
            answer = await _best_answer(client, quote(namespace, safe=""), path)
    except (AccessError, Unreachable) as err:
        raise OpsUnreachable(f"the API server cannot be asked: {err}; or give --server URL") from None
    if answer.ok or _is_ours(answer.body):
        return answer.status, _decoded(answer.body, "the API server")
    hint = "is Tangram installed and ready?" if answer.status in (404, 503) else "see the rights of your account"
    raise OpsUnreachable(
        f"the Service {SERVICE} in namespace {namespace} cannot be asked through the API server "
        f"({answer.status}: {answer.message}): {hint}"
    )


async def _best_answer(client: ClusterClient, namespace: str, path: str) -> Answer:
    """What the Service answers; what one of its pods answers if that is from the replica that acts and this is not."""
    from extender_api.cluster.answer import Unreachable

    first = await client.get(SERVICE_PATH.format(namespace=namespace, service=SERVICE, path=path))
    if not _may_be_bettered(first):
        return first
    for pod, port in await _replicas(client, namespace):
        proxied = POD_PATH.format(namespace=namespace, pod=pod, port=port, path=path)
        with contextlib.suppress(Unreachable):  # one that has gone
            answer = await client.get(proxied, timeout_s=REPLICA_TIMEOUT_S)
            if answer.ok and not _may_be_bettered(answer):
                return answer
    return first


def _may_be_bettered(answer: Answer) -> bool:
    """Whether a standby answered, or a replica that is not ready."""
    if answer.status == 503:
        return True
    try:
        return answer.ok and is_standby(json.loads(answer.body))
    except ValueError:
        return False


async def _replicas(client: ClusterClient, namespace: str) -> list[tuple[str, int]]:
    """Names and ops ports of Tangram's pods; none where the account may not list them."""
    selectors = {"labelSelector": PODS_SELECTOR}
    answer = await client.list_page(PODS_PATH.format(namespace=namespace), limit=REPLICAS_ASKED, selectors=selectors)
    return [
        (pod["metadata"]["name"], port["containerPort"])
        for pod in (answer.json().get("items") or () if answer.ok else ())
        for container in pod["spec"]["containers"]
        for port in container.get("ports") or ()
        if port.get("name") == PORT_NAME
    ]


def is_standby(document: Any) -> bool:
    """Whether an answer, or a list of nodes in one, comes from a replica that does not act."""
    if isinstance(document, list):
        document = document[0] if document else None
    return isinstance(document, dict) and document.get("active") is False


def _is_ours(body: bytes) -> bool:
    """Whether a refusal came from Tangram; the API server's are Status objects."""
    try:
        document = json.loads(body)
    except ValueError:
        return False
    return isinstance(document, dict) and "detail" in document and document.get("kind") != "Status"


def _has_kubeconfig(arguments: argparse.Namespace) -> bool:
    return bool(arguments.kubeconfig or os.environ.get("KUBECONFIG") or Path("~/.kube/config").expanduser().exists())


def refusal(status: int, answer: Any) -> str:
    """What a Tangram that does not answer as asked says."""
    detail = answer.get("detail") if isinstance(answer, dict) else None
    return str(detail or f"status {status}")


def _decoded(body: bytes, where: str) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise OpsUnreachable(f"{where} answered something that is not JSON: {body[:200]!r}") from None
