"""The client of the Kubernetes API as plain tests use it: every call waits for its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tests.controlplane.async_kube import ApiError, AsyncKube
from tests.controlplane.loop_thread import LoopThread
from tests.controlplane.resources import Object, Objects, Resource
from tests.controlplane.waiting import eventually

__all__ = ["ApiError", "Kube"]

_NOT_FOUND = 404


class Kube:
    """The calls of AsyncKube without `await`. `loop` and `client` serve those who need several at once."""

    def __init__(self, server: str, token: str, authority_pem: str) -> None:
        self.loop = LoopThread("kube")
        self.loop.start()
        self.client = AsyncKube(server, token, authority_pem)
        self.loop.run(self.client.open())

    def close(self) -> None:
        self.loop.run(self.client.close())
        self.loop.stop()

    def request(self, method: str, path: str, body: Any = None, params: Mapping[str, str] | None = None) -> Any:
        """One call of any kind; the decoded answer, or its text where it is not JSON."""
        return self.loop.run(self.client.request(method, path, body, params))

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        return self.loop.run(self.client.get(resource, name, namespace))

    def find(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        """The object, or None where there is none."""
        try:
            return self.get(resource, name, namespace)
        except ApiError as err:
            if err.status != _NOT_FOUND:
                raise
            return None

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Objects:
        return self.loop.run(self.client.list(resource, namespace, label_selector, field_selector))

    def create(self, document: Object, namespace: str | None = None) -> Object:
        return self.loop.run(self.client.create(document, namespace))

    def create_all(self, documents: Iterable[Object]) -> Sequence[Object]:
        """Creates many objects at once; the answers in the order of the input."""
        return self.loop.run(self.client.create_all(documents))

    def apply(self, *documents: Object) -> None:
        """Server-side apply, one after the other."""
        for document in documents:
            self.loop.run(self.client.apply(document))

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> Object:
        """A mapping is a merge patch, a sequence a JSON patch."""
        return self.loop.run(self.client.patch(resource, name, patch, namespace, subresource))

    def delete(self, resource: Resource, name: str, namespace: str | None = None, grace_s: int | None = None) -> None:
        self.loop.run(self.client.delete(resource, name, namespace, grace_s))

    def delete_all(self, resource: Resource, namespace: str | None = None, label_selector: str = "") -> None:
        self.loop.run(self.client.delete_all(resource, namespace, label_selector))

    def bind(self, pod: Object, node: str, annotations: Mapping[str, str] | None = None) -> None:
        """Binds the pod as a scheduler does."""
        self.loop.run(self.client.bind(pod, node, annotations))

    def wait_until_served(self, resource: Resource, namespace: str | None = None) -> None:
        """Waits until a kind that was defined a moment ago can be asked for."""

        def served() -> bool:
            try:
                self.list(resource, namespace)
            except ApiError:
                return False
            return True

        eventually(served, f"{resource.plural} are served")

    def wait_for(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        condition: Callable[[Object], bool],
        what: str,
        timeout_s: float = 60.0,
    ) -> Object:
        """The object once `condition` holds for it. AssertionError with its status when time is over."""
        last: Object = {}

        def holds() -> bool:
            nonlocal last
            last = self.find(resource, name, namespace) or {}
            return bool(last) and condition(last)

        try:
            eventually(holds, what, timeout_s)
        except AssertionError as err:
            raise AssertionError(f"{err}; {name} has {last.get('status', 'never been there')}") from None
        return last
