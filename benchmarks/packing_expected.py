"""The numbers that the openb experiments are compared with: the published ones, and those measured beforehand."""

from __future__ import annotations

import csv
import gzip
import json
from functools import cached_property
from pathlib import Path
from typing import Any, Final

PUBLISHED: Final = {
    "dotprod": "02-DotProd",
    "gpu-clustering": "03-GpuClustering",
    "gpu-packing": "04-GpuPacking",
    "bestfit": "05-BestFit",
    "fgd": "06-FGD",
}
"""Our names → those of the published table."""
MEASURED: Final = {
    "bestfit": "BestFit",
    "gpu-packing": "GpuPacking",
    "fgd": "FGD",
    "rsv": "RSV-balanced",
    "rsv-max": "RSV-max",
}
"""Our names → those of expected.json."""
LAST_BUCKET: Final = "130"


class Expected:
    """Reads what lies beside the traces."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def allocation(self, trace: str, policy: str, seed: int) -> float | None:
        """Percent at the end of inflation with a published seed: published for policies of the literature (the mean
        over the last percent of demand), measured for ours (the very end)."""
        if policy in PUBLISHED:
            return self._published.get((trace, policy, seed))
        found = self._document["traces"].get(trace, {}).get("policies", {}).get(MEASURED.get(policy, policy))
        seeds: list[int] = self._document["seeds"]
        return None if found is None or seed not in seeds else float(found["per_seed"][seeds.index(seed)])

    def fresh(self, trace: str, policy: str) -> float | None:
        """Percent at the end of inflation, the mean of seeds 100..109."""
        document = self._document["fresh_seeds_100_109"]
        columns: list[str] = document["columns"]
        name = MEASURED.get(policy)
        return float(document[trace][columns.index(name)]) if trace in document and name in columns else None

    def served(self, trace: str, policy: str, load: float) -> tuple[float | None, float | None]:
        """Percent of the offered GPU time that was served, in all and to pods of eight GPUs."""
        cell = self._document["churn"]["cells"].get(trace, {}).get(MEASURED.get(policy), {}).get(f"{load:.1f}", {})
        return cell.get("served"), cell.get("eight_gpu")

    def sampled(self, trace: str, policy: str, candidates: int) -> float | None:
        """Percent at the end where only so many nodes with room are seen, the mean of seeds 42..44."""
        cell: dict[str, float] = self._document["sampling"].get(MEASURED.get(policy), {}).get(trace, {})
        return cell.get(str(candidates))

    @property
    def fresh_traces(self) -> list[str]:
        """Those that have seeds 100..109."""
        return [name for name in self._document["fresh_seeds_100_109"] if name != "columns"]

    @cached_property
    def _document(self) -> dict[str, Any]:
        return dict(json.loads((self._folder / "expected.json").read_text(encoding="utf-8")))

    @cached_property
    def _published(self) -> dict[tuple[str, str, int], float]:
        ours = {theirs: name for name, theirs in PUBLISHED.items()}
        with gzip.open(self._folder / "analysis_allo_discrete.csv.gz", "rt", encoding="utf-8") as file:
            return {
                (row["workload"].removeprefix("openb_pod_list_"), ours[row["sc_policy"]], int(row["seed"])): float(
                    row[LAST_BUCKET]
                )
                for row in csv.DictReader(file)
                if row["sc_policy"] in ours
            }
