"""Tables for people, JSON for programs."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

OUT: Final = Path(__file__).resolve().parent / "out"
MIN_WIDTH: Final = 110
console: Final = Console(highlight=False, soft_wrap=True, width=max(shutil.get_terminal_size().columns, MIN_WIDTH))


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, words: int = 1) -> None:
    """Prints a table; the first `words` columns are text, the others numbers."""
    view = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for number, column in enumerate(columns):
        view.add_column(column, justify="left" if number < words else "right", no_wrap=number < words)
    for row in rows:
        view.add_row(*(_cell(value) for value in row))
    console.print(view)


def write(name: str, results: Any, folder: Path = OUT) -> Path:
    """Writes `results` (JSON values) with the machine and the time to NAME.json; returns the path."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {"name": name, "at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}
    path = folder / f"{name}.json"
    path.write_text(json.dumps(document | {"results": results}, indent=1) + "\n", encoding="utf-8")
    console.print(f"written to {path}")
    return path


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.2f}" if value < 100 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)
