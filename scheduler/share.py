"""The part of a device that a pod asks for in annotations: reading the words, and what is wrong with them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

from scheduler.pod import PodFacts
from scheduler.problem import Problem, RequestError, Warned
from topology import quantity, vocabulary
from topology.vocabulary import Word

MAX_DEVICES: Final = 1024
MAX_MEMORY_MIB: Final = 1 << 40

_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_MOST_NAMES: Final = 10
_LONGEST_QUOTE: Final = 64


@dataclass(frozen=True, slots=True)
class Share:
    """So much of each of `devices` distinct devices, for one container: either `milli` or `memory_mib` is set."""

    milli: int
    memory_mib: int
    devices: int
    container: str


class ShareWords(NamedTuple):
    """The share words of a pod as they are written; None where a word is absent."""

    fraction: str | None
    memory: str | None
    devices: str | None
    container: str | None

    @property
    def wants_share(self) -> bool:
        """Asks for a part of a device; the other words only say more about it."""
        return self.fraction is not None or self.memory is not None

    @property
    def asking(self) -> str:
        """The word that asks for the share and its value, for texts."""
        if self.fraction is not None:
            return f"{vocabulary.GPU_FRACTION.key} {quoted(self.fraction)}"
        return f"{vocabulary.GPU_MEMORY.key} {quoted(self.memory or '')}"


class Warning_(NamedTuple):
    """Something in a pod that works but is not meant: a constant name and a text for the pod's author."""

    problem: Warned
    text: str


def words_of(pod: PodFacts) -> ShareWords:
    """The share words among the pod's annotations. Raises RequestError for empty values and rival spellings."""
    return ShareWords(*(_value(pod.annotations, word) for word in vocabulary.SHARE_WORDS))


def share_of(pod: PodFacts, words: ShareWords, whole_resource: str) -> Share | None:
    """The share that the words ask for, or None when they ask for none.

    `whole_resource` is the resource that texts name for whole devices. Raises RequestError.
    """
    if words.fraction is not None and words.memory is not None:
        raise RequestError(
            Problem.FRACTION_WITH_MEMORY,
            f"the pod asks for gpu-fraction {quoted(words.fraction)} and for gpu-memory {quoted(words.memory)}: "
            "keep one of the two annotations",
            fraction=words.fraction,
            memory=words.memory,
        )
    if not words.wants_share:
        _refuse_words_alone(words)
        return None
    return Share(
        milli=0 if words.fraction is None else _milli(words.fraction, whole_resource),
        memory_mib=0 if words.memory is None else _memory_mib(words.memory),
        devices=1 if words.devices is None else _devices(words.devices),
        container=_container(pod, words.container),
    )


def warnings_of(pod: PodFacts) -> tuple[Warning_, ...]:
    """What the pod's author should mend although it works; each kind at most once."""
    found = []
    old = [
        (word.key, spelling)
        for word in vocabulary.SHARE_WORDS
        for spelling in word.deprecated
        if spelling in pod.annotations
    ]
    if old:
        text = "; ".join(f"annotation {spelling} is read as {key}: write {key} instead" for key, spelling in old)
        found.append(Warning_(Warned.DEPRECATED_SPELLING, text))
    misplaced = [
        spelling
        for word in vocabulary.SHARE_WORDS
        for spelling in word.spellings
        if spelling in pod.labels and not any(known in pod.annotations for known in word.spellings)
    ]
    if misplaced:
        text = f"{', '.join(misplaced)} is a label and is not read there: write it under metadata.annotations"
        found.append(Warning_(Warned.SHARE_WORD_AS_LABEL, text))
    return tuple(found)


def _value(annotations: Mapping[str, str], word: Word) -> str | None:
    """The value of a word in whichever spelling."""
    written = {spelling: annotations[spelling] for spelling in word.spellings if spelling in annotations}
    if not written:
        return None
    if len(set(written.values())) > 1:
        both = " and ".join(f"{spelling} {quoted(value)}" for spelling, value in written.items())
        raise RequestError(
            Problem.SPELLINGS_DIFFER,
            f"annotations {both} say different things: keep only {word.key}",
            **written,
        )
    spelling, value = next(iter(written.items()))
    if not value.strip():
        raise RequestError(
            Problem.EMPTY_VALUE,
            f"annotation {spelling} is empty: give it a value or remove it",
            annotation=spelling,
        )
    return value


def _refuse_words_alone(words: ShareWords) -> None:
    if words.devices is not None:
        raise RequestError(
            Problem.NUM_DEVICES_WITHOUT_SHARE,
            f"annotation gpu-fraction-num-devices {quoted(words.devices)} stands without a share: add gpu-fraction or "
            "gpu-memory, or remove it",
            devices=words.devices,
        )
    if words.container is not None:
        raise RequestError(
            Problem.CONTAINER_WITHOUT_SHARE,
            f"annotation gpu-fraction-container-name {quoted(words.container)} stands without a share: add "
            "gpu-fraction or gpu-memory, or remove it",
            container=words.container,
        )


def _milli(text: str, whole_resource: str) -> int:
    """Thousandths of a device."""
    if not _NUMBER.fullmatch(text):
        raise RequestError(
            Problem.BAD_FRACTION,
            f'gpu-fraction {quoted(text)} is not a number: write a decimal between 0 and 1 such as "0.5"',
            value=text,
        )
    value = Decimal(text)
    if value <= 0:
        raise RequestError(
            Problem.FRACTION_NOT_POSITIVE,
            f"gpu-fraction {quoted(text)} asks for nothing: write a decimal between 0 and 1, or remove the annotation",
            value=text,
        )
    if value >= 1:
        raise RequestError(
            Problem.FRACTION_NOT_BELOW_ONE,
            f"gpu-fraction {quoted(text)} is no part of one device: remove the annotation and ask for "
            f"{whole_resource}: {_ceiling(value)} under resources.limits; for parts of several devices keep a "
            "fraction below 1 and add gpu-fraction-num-devices",
            value=text,
            resource=whole_resource,
        )
    try:
        return quantity.share_milli(f"{value:f}")
    except quantity.QuantityError:
        raise RequestError(
            Problem.FRACTION_TOO_FINE,
            f'gpu-fraction {quoted(text)} is finer than thousandths: write at most three decimals such as "0.125"',
            value=text,
        ) from None


def _memory_mib(text: str) -> int:
    amount = _integer(text)
    if amount is None:
        raise RequestError(
            Problem.BAD_MEMORY,
            f"gpu-memory {quoted(text)} is not an integer: write MiB without a unit such as {_memory_example(text)}",
            value=text,
        )
    if amount <= 0:
        raise RequestError(
            Problem.MEMORY_NOT_POSITIVE,
            f"gpu-memory {quoted(text)} asks for nothing: write a positive number of MiB, or remove the annotation",
            value=text,
        )
    if amount > MAX_MEMORY_MIB:
        raise RequestError(
            Problem.AMOUNT_TOO_LARGE,
            f"gpu-memory {quoted(text)} is more than any device has: the number is MiB, not bytes",
            value=text,
        )
    return amount


def _memory_example(text: str) -> str:
    """What the author probably meant, in the form that is read."""
    try:
        mib = quantity.parse(text) / (1 << 20)
    except quantity.QuantityError:
        mib = None
    if mib is None or not 1 <= mib <= MAX_MEMORY_MIB:
        return '"20000"'
    return f'"{-(-mib.numerator // mib.denominator)}"'


def _devices(text: str) -> int:
    count = _integer(text) or 0
    if not 1 <= count <= MAX_DEVICES:
        raise RequestError(
            Problem.BAD_NUM_DEVICES,
            f"gpu-fraction-num-devices {quoted(text)} is no number of devices: write an integer from 1 to "
            f"{MAX_DEVICES}",
            value=text,
        )
    return count


def _container(pod: PodFacts, named: str | None) -> str:
    """The container that gets the devices: the first one, or the named one, which may be an init container."""
    if named is None:
        return pod.containers[0].name if pod.containers else ""
    names = [container.name for container in (*pod.containers, *pod.init_containers)]
    if named not in names:
        known = ", ".join([*names[:_MOST_NAMES], *(["…"] if len(names) > _MOST_NAMES else [])])
        raise RequestError(
            Problem.UNKNOWN_CONTAINER,
            f"gpu-fraction-container-name {quoted(named)} is no container of the pod: write one of {known}, "
            "or remove the annotation to mean the first container",
            container=named,
            containers=known,
        )
    return named


def _integer(text: str) -> int | None:
    """A decimal integer, or None. One of more than 18 digits counts as 10^18: nothing that is counted comes near."""
    if not _INTEGER.fullmatch(text):
        return None
    digits = text.lstrip("+-").lstrip("0") or "0"
    size = int(digits) if len(digits) <= 18 else 10**18
    return -size if text.startswith("-") else size


def quoted(text: str) -> str:
    """A value as texts show it: in quotes, and short."""
    short = text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 3] + "..."
    return json.dumps(short, ensure_ascii=False)


def _ceiling(value: Decimal) -> int:
    """The next whole number; large ones stay small enough for a text."""
    return int(min(value, Decimal(MAX_DEVICES)).to_integral_value(rounding="ROUND_CEILING"))
