"""Where usage over time outlives us: a text in a ConfigMap."""

from __future__ import annotations

import logging
from typing import Any, Final

from extender_api.cluster import paths
from extender_api.cluster.answer import Answer, Unreachable
from extender_api.cluster.client import ClusterClient, PatchKind

logger = logging.getLogger(__name__)

KEY: Final = "usage"
_NOT_FOUND: Final = 404


class UsageStore:
    """Reads and writes the text. Trouble is said once until it goes well again; nobody depends on it.

    `answered` says whether the last `load` found out what is there. Whoever saves after one that did not overwrites a
    text that it has not seen.
    """

    def __init__(self, client: ClusterClient, namespace: str, name: str) -> None:
        self.answered = False
        self._client = client
        self._namespace = namespace
        self._name = name
        self._trouble = ""

    async def load(self) -> str | None:
        """The text that was saved last; None when there is none, or it cannot be read now."""
        self.answered = False
        try:
            answer = await self._client.get(paths.config_map(self._namespace, self._name))
        except Unreachable as err:
            self._note(str(err))
            return None
        if answer.status == _NOT_FOUND:
            self.answered = True
            return None
        if not self._is_well(answer):
            return None
        self.answered = True
        data = answer.json().get("data")
        text = data.get(KEY) if isinstance(data, dict) else None
        return text if isinstance(text, str) else None

    async def save(self, text: str) -> bool:
        """Writes the text; the ConfigMap is made when it is not there. Whether it went well."""
        body: dict[str, Any] = {"data": {KEY: text}}
        try:
            path = paths.config_map(self._namespace, self._name)
            answer = await self._client.patch(path, body, PatchKind.MERGE)
            if answer.status == _NOT_FOUND:
                labels = {"app.kubernetes.io/part-of": "tangram"}
                meta = {"name": self._name, "namespace": self._namespace, "labels": labels}
                document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, **body}
                answer = await self._client.create(paths.config_map(self._namespace), document)
        except Unreachable as err:
            self._note(str(err))
            return False
        return self._is_well(answer)

    def _is_well(self, answer: Answer) -> bool:
        self._note("" if answer.ok else f"{answer.status}: {answer.message}")
        return answer.ok

    def _note(self, trouble: str) -> None:
        if trouble and not self._trouble:
            logger.warning("usage over time, ConfigMap %s/%s: %s", self._namespace, self._name, trouble)
        self._trouble = trouble
