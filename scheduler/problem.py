"""What can be wrong with a request: constant names for programs, and an error with a text for the pod's author."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

_LONGEST_DETAIL: Final = 256


class Problem(StrEnum):
    """Every way in which a pod's request contradicts itself. The names are part of the API."""

    # the share words
    EMPTY_VALUE = "EMPTY_VALUE"
    SPELLINGS_DIFFER = "SPELLINGS_DIFFER"
    BAD_FRACTION = "BAD_FRACTION"
    FRACTION_NOT_POSITIVE = "FRACTION_NOT_POSITIVE"
    FRACTION_NOT_BELOW_ONE = "FRACTION_NOT_BELOW_ONE"
    FRACTION_TOO_FINE = "FRACTION_TOO_FINE"
    BAD_MEMORY = "BAD_MEMORY"
    MEMORY_NOT_POSITIVE = "MEMORY_NOT_POSITIVE"
    BAD_NUM_DEVICES = "BAD_NUM_DEVICES"
    UNKNOWN_CONTAINER = "UNKNOWN_CONTAINER"
    NO_DEVICE_VARIABLE = "NO_DEVICE_VARIABLE"
    # words that do not go together
    FRACTION_WITH_MEMORY = "FRACTION_WITH_MEMORY"
    FRACTION_WITH_WHOLE_DEVICES = "FRACTION_WITH_WHOLE_DEVICES"
    MEMORY_WITH_WHOLE_DEVICES = "MEMORY_WITH_WHOLE_DEVICES"
    SHARE_WITH_MIG = "SHARE_WITH_MIG"
    NUM_DEVICES_WITHOUT_SHARE = "NUM_DEVICES_WITHOUT_SHARE"
    CONTAINER_WITHOUT_SHARE = "CONTAINER_WITHOUT_SHARE"
    TWO_DEVICE_RESOURCES = "TWO_DEVICE_RESOURCES"
    MIG_ANNOTATION = "MIG_ANNOTATION"
    # amounts
    NEGATIVE_AMOUNT = "NEGATIVE_AMOUNT"
    AMOUNT_TOO_LARGE = "AMOUNT_TOO_LARGE"
    REQUEST_WITHOUT_LIMIT = "REQUEST_WITHOUT_LIMIT"
    REQUEST_NOT_LIMIT = "REQUEST_NOT_LIMIT"


class Warned(StrEnum):
    """What works but is not meant. The names are part of the API."""

    DEPRECATED_SPELLING = "DEPRECATED_SPELLING"
    SHARE_WORD_AS_LABEL = "SHARE_WORD_AS_LABEL"


class RequestError(ValueError):
    """A request that cannot be met as it is written. The text says what to change; `details` hold its parts."""

    def __init__(self, problem: Problem, text: str, **details: str | int) -> None:
        super().__init__(text)
        self.problem = problem
        self.details: Mapping[str, str] = {key: str(value)[:_LONGEST_DETAIL] for key, value in details.items()}
