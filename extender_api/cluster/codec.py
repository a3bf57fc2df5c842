"""Bytes or parsed objects in, facts out: single objects, pages of a list and events of a watch.

One `Codec` per kind. Validation looks only at what is read, in one pass over the bytes, and the validated form is
dropped at once: what stays in memory are the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator, from_json
from typing_extensions import TypedDict

from extender_api.cluster.fields import DecodeError, FieldError, first_problem
from extender_api.cluster.pod_model import MetaModel

Model = TypeVar("Model")
Facts = TypeVar("Facts")
Raw = bytes | str | Mapping[str, Any]

BOOKMARK: Final = "BOOKMARK"
ERROR: Final = "ERROR"
DELETED: Final = "DELETED"


# `continue` is no name in Python, so this one is made in the functional form.
ListMeta = TypedDict("ListMeta", {"resourceVersion": str | None, "continue": str | None}, total=False)


class PageModel(TypedDict, Generic[Model]):
    metadata: ListMeta
    items: list[Model] | None


class EventModel(TypedDict, Generic[Model]):
    type: str
    object: Model


@dataclass(frozen=True, slots=True)
class Found(Generic[Facts]):
    """One object: its key, its version, and its facts, or None with the error that kept it from being read."""

    key: str
    version: str
    facts: Facts | None
    error: DecodeError | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[Facts]):
    """A page of a list. `token` asks for the next page; an empty one means that this was the last."""

    items: list[Found[Facts]]
    version: str
    token: str


@dataclass(frozen=True, slots=True)
class Event(Generic[Facts]):
    """An event of a watch. `found` is None for BOOKMARK, which has only a `version`, and for ERROR, which has only a
    `status`: the code and text of the Status object.
    """

    type: str
    version: str = ""
    found: Found[Facts] | None = None
    status: tuple[int, str] = (0, "")


class Codec(Generic[Model, Facts]):
    """Decoder of one kind. `key` is what tells two objects apart: the uid of pods, the name of others."""

    def __init__(
        self,
        kind: str,
        *,
        model: TypeAdapter[Model],
        page: TypeAdapter[PageModel[Model]],
        event: TypeAdapter[EventModel[Model]],
        facts: Callable[[Model], Facts],
        key: Callable[[MetaModel], str],
        same: Callable[[Facts, Facts], bool],
    ) -> None:
        self.kind: Final = kind
        self.same: Final = same
        self._model: SchemaValidator = _validator(model)
        self._page: SchemaValidator = _validator(page)
        self._event: SchemaValidator = _validator(event)
        self._facts = facts
        self._key = key

    def one(self, raw: Raw) -> Facts:
        """The facts of one object. Raises DecodeError naming the object and the field."""
        try:
            if isinstance(raw, bytes | str):
                return self._facts(self._model.validate_json(raw))
            return self._facts(self._model.validate_python(raw))
        except ValidationError as err:
            problem = first_problem(err)
        except FieldError as err:
            problem = err
        raise DecodeError(self._where(raw), problem.path, problem.problem)

    def page(self, body: bytes) -> Page[Facts]:
        """A page of a list; objects that cannot be read stand in it with their error.

        Raises DecodeError when the body is no list at all.
        """
        try:
            page = self._page.validate_json(body)
            items = [self._found(model) for model in page["items"] or ()]
            meta = page["metadata"]
        except ValidationError:
            document = self._document(body)
            listed, meta = document.get("items"), document.get("metadata")
            if not isinstance(listed, list) or not isinstance(meta, dict):
                raise DecodeError(f"list of {self.kind}", (), "has no metadata and items") from None
            items = [self._salvaged(item) for item in listed]
        return Page(items, meta.get("resourceVersion") or "", meta.get("continue") or "")

    def event(self, line: bytes) -> Event[Facts]:
        """One line of a watch. Raises DecodeError when it is no watch event at all."""
        # Objects on the short way; bookmarks are objects with holes, and errors are another kind.
        if not line.startswith((b'{"type":"BOOKMARK"', b'{"type":"ERROR"')):
            try:
                event = self._event.validate_json(line)
                if event["type"] not in (BOOKMARK, ERROR):
                    found = self._found(event["object"])
                    return Event(event["type"], found.version, found)
            except ValidationError:
                pass
        return self._odd_event(self._document(line))

    def _odd_event(self, document: dict[str, Any]) -> Event[Facts]:
        kind, item = document.get("type"), document.get("object")
        if not isinstance(kind, str) or not isinstance(item, dict):
            raise DecodeError(f"watch of {self.kind}", (), "a line without type and object")
        if kind == ERROR:
            code = item.get("code")
            return Event(ERROR, status=(code if isinstance(code, int) else 0, str(item.get("message", ""))))
        if kind == BOOKMARK:
            return Event(BOOKMARK, _text(item.get("metadata"), "resourceVersion"))
        found = self._salvaged(item)
        return Event(kind, found.version, found)

    def _found(self, model: Any) -> Found[Facts]:
        meta: MetaModel = model["metadata"]
        version = meta.get("resourceVersion") or ""
        try:
            return Found(self._key(meta), version, self._facts(model))
        except FieldError as err:
            error = DecodeError(_where(self.kind, meta), err.path, err.problem)
            return Found(self._key(meta), version, None, error)

    def _salvaged(self, item: Any) -> Found[Facts]:
        """The slow way, for an object that validation may refuse."""
        try:
            return self._found(self._model.validate_python(item))
        except ValidationError as err:
            problem = first_problem(err)
        raw = item.get("metadata") if isinstance(item, dict) else None
        meta: MetaModel = {"name": _text(raw, "name"), "namespace": _text(raw, "namespace")}
        meta["uid"] = _text(raw, "uid")
        error = DecodeError(_where(self.kind, meta), problem.path, problem.problem)
        return Found(self._key(meta), _text(raw, "resourceVersion"), None, error)

    def _document(self, text: bytes) -> dict[str, Any]:
        try:
            document = from_json(text)
        except ValueError as err:
            raise DecodeError(f"answer about {self.kind}", (), f"not JSON: {err}") from None
        if not isinstance(document, dict):
            raise DecodeError(f"answer about {self.kind}", (), "not a JSON object")
        return document

    def _where(self, raw: Raw) -> str:
        if not isinstance(raw, Mapping):
            try:
                raw = self._document(raw if isinstance(raw, bytes) else raw.encode())
            except DecodeError:
                return self.kind
        meta = raw.get("metadata")
        return _where(self.kind, {"name": _text(meta, "name"), "namespace": _text(meta, "namespace")})


def _validator(adapter: TypeAdapter[Any]) -> SchemaValidator:
    validator = adapter.validator
    assert isinstance(validator, SchemaValidator)
    return validator


def _text(mapping: Any, key: str) -> str:
    value = mapping.get(key) if isinstance(mapping, Mapping) else None
    return value if isinstance(value, str) else ""


def _where(kind: str, meta: MetaModel) -> str:
    name = "/".join(part for part in (meta.get("namespace"), meta["name"]) if part)
    return f"{kind} {name}" if name else kind
