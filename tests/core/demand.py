"""Demand for policies to learn in tests."""

from __future__ import annotations

from scheduler.packing.mix import Mix, PodClass

MIX = Mix(
    (
        PodClass(100, 0, 1, 500),
        PodClass(100, 0, 1, 300),
        PodClass(1000, 0, 0, 0),
        PodClass(200, 0, 1, 1000),
        PodClass(400, 1 << 30, 2, 1000),
        PodClass(100, 0, 1, 0, share_mib=40),
        PodClass(100, 0, 2, 250),
    ),
    (5, 3, 2, 4, 2, 1, 1),
)
OTHER_MIX = Mix((PodClass(300, 0, 1, 700), PodClass(100, 0, 4, 1000)), (3, 1))
