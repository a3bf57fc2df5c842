"""The form of an answer: for people or for programs."""

from __future__ import annotations

import argparse
import json
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The option for it."""
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text", help="form of the answer (text)")


def print_json(document: Any) -> None:
    """Prints a document for programs."""
    print(json.dumps(document, indent=2))
