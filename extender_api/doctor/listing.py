"""Reading a whole list page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final, TypeVar

from extender_api.cluster.answer import Answer
from extender_api.cluster.client import ClusterClient
from extender_api.cluster.codec import Codec, Found

Model = TypeVar("Model")
Facts = TypeVar("Facts")

PAGE: Final = 500


class ListError(Exception):
    """The API server refused a list; the text says which and why, `status` is HTTP's."""

    def __init__(self, path: str, answer: Answer) -> None:
        super().__init__(f"{path}: {answer.message} (HTTP {answer.status})")
        self.status = answer.status


async def every(
    client: ClusterClient, path: str, codec: Codec[Model, Facts], selectors: Mapping[str, str] | None = None
) -> AsyncIterator[Found[Facts]]:
    """All objects of a list. Raises ListError, Unreachable."""
    token = ""
    while True:
        answer = await client.list_page(path, limit=PAGE, token=token, selectors=selectors)
        if not answer.ok:
            raise ListError(path, answer)
        page = codec.page(answer.body)
        for found in page.items:
            yield found
        if not page.token:
            return
        token = page.token
