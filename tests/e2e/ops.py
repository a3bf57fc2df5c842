"""Asking a running Tangram: its ops API, its metrics, and its command line."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from tests.controlplane.resources import Object, Objects
from tests.controlplane.tangram_process import COMMAND, TangramProcess

_OPENER: Final = build_opener(ProxyHandler({}))
_SAMPLE: Final = re.compile(r"^(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


class Ops:
    """The ops listener of one Tangram."""

    def __init__(self, tangram: TangramProcess) -> None:
        self._url = tangram.ops_url

    def status(self) -> Object:
        return _object(self._json("/api/v1/status"))

    def nodes(self) -> Objects:
        answer = self._json("/api/v1/nodes")
        assert isinstance(answer, list)
        return answer

    def queues(self) -> Object:
        return _object(self._json("/api/v1/queues"))

    def packing(self) -> Object:
        return _object(self._json("/api/v1/packing"))

    def plan(self, document: Object) -> Object:
        """The answer of a stateless plan."""
        body = json.dumps(document).encode()
        with _OPENER.open(Request(f"{self._url}/api/v1/plan", data=body, method="POST"), timeout=60) as answer:
            return _object(json.load(answer))

    def workload(self, namespace: str, name: str) -> Object:
        return _object(self._json(f"/api/v1/workloads/{namespace}/{name}"))

    def knows(self, namespace: str, name: str) -> bool:
        """Whether Tangram knows a pod of that name."""
        try:
            self.workload(namespace, name)
        except HTTPError as err:
            if err.code != 404:
                raise
            return False
        return True

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that carry these labels."""
        total = 0.0
        for line in self._text("/metrics").splitlines():
            sample = _SAMPLE.match(line)
            if sample is not None and sample["name"] == name:
                found = dict(_LABEL.findall(sample["labels"] or ""))
                if labels.items() <= found.items():
                    total += float(sample["value"])
        return total

    def api_calls(self) -> dict[str, int]:
        """Calls to the API server so far, by what they do."""
        calls: dict[str, int] = {}
        for line in self._text("/metrics").splitlines():
            sample = _SAMPLE.match(line)
            if sample is not None and sample["name"] == "tangram_api_calls_total":
                call = dict(_LABEL.findall(sample["labels"] or ""))["call"]
                calls[call] = calls.get(call, 0) + int(float(sample["value"]))
        return calls

    def command(self, *arguments: str) -> tuple[int, str]:
        """Exit status and output of `tangram ARGUMENTS` that asks this Tangram."""
        done = subprocess.run(
            [COMMAND, *arguments, f"--server={self._url}"], capture_output=True, text=True, check=False, timeout=60
        )
        assert not done.stderr, done.stderr
        return done.returncode, done.stdout

    def _json(self, path: str) -> Any:
        return json.loads(self._text(path))

    def _text(self, path: str) -> str:
        with _OPENER.open(self._url + path, timeout=20) as answer:
            return str(answer.read(), "utf-8")


def _object(answer: Any) -> Object:
    assert isinstance(answer, dict), answer
    return answer
