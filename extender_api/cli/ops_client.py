"""Asking a running Tangram: its ops API, directly or through the API server's proxy to the ops Service."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from typing import Any, Final

import aiohttp

from extender_api.errors import TangramError

SERVICE_PATH: Final = "/api/v1/namespaces/{namespace}/services/tangram-ops:ops/proxy{path}"
DEFAULT_SERVER: Final = "http://127.0.0.1:8889"


class NoAnswer(TangramError):
    """The ops API could not be reached or did not answer as it should."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to ask, and in which form to answer."""
    parser.add_argument(
        "--server",
        metavar="URL",
        help=f"ops address of Tangram, e.g. {DEFAULT_SERVER}; without it the Service tangram-ops is asked "
        "through the API server when there is a kubeconfig",
    )
    parser.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig file (default: $KUBECONFIG, ~/.kube/config)")
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig file")
    parser.add_argument(
        "--tangram-namespace", metavar="NAME", default="tangram-system", help="where Tangram runs (tangram-system)"
    )
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text", help="form of the answer")


def ask(arguments: argparse.Namespace, path: str) -> tuple[int, Any]:
    """HTTP status and decoded JSON of a GET. Raises NoAnswer."""
    return asyncio.run(_ask(arguments, path))


async def _ask(arguments: argparse.Namespace, path: str) -> tuple[int, Any]:
    if arguments.server is None and _has_kubeconfig(arguments):
        return await _through_api_server(arguments, path)
    server = (arguments.server or DEFAULT_SERVER).rstrip("/")
    try:
        timeout = aiohttp.ClientTimeout(total=30)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(server + path) as answer:
            return answer.status, _decoded(await answer.read(), server)
    except (aiohttp.ClientError, TimeoutError) as err:
        raise NoAnswer(
            f"no Tangram answers at {server} ({err or type(err).__name__}): give --server URL, or --kubeconfig FILE"
        ) from None


async def _through_api_server(arguments: argparse.Namespace, path: str) -> tuple[int, Any]:
    from extender_api.cluster.access import AccessError
    from extender_api.cluster.answer import Unreachable
    from extender_api.cluster.client import ClientSettings, ClusterClient

    proxied = SERVICE_PATH.format(namespace=arguments.tangram_namespace, path=path)
    try:
        settings = ClientSettings(kubeconfig=arguments.kubeconfig, context=arguments.context)
        async with await ClusterClient.connect(settings) as client:
            answer = await client.get(proxied)
    except (AccessError, Unreachable) as err:
        raise NoAnswer(f"the API server cannot be asked: {err}") from None
    if answer.status in (404, 503) and b"no pod" not in answer.body:
        raise NoAnswer(
            f"the Service tangram-ops in namespace {arguments.tangram_namespace} has no answer "
            f"({answer.status}): is Tangram installed and ready?"
        )
    return answer.status, _decoded(answer.body, "the API server")


def _has_kubeconfig(arguments: argparse.Namespace) -> bool:
    home = os.path.expanduser("~/.kube/config")
    return bool(arguments.kubeconfig or os.environ.get("KUBECONFIG") or os.path.exists(home))


def _decoded(body: bytes, where: str) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise NoAnswer(f"{where} answered something that is not JSON: {body[:200]!r}") from None
