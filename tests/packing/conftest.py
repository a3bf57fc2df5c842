"""Kernels may be compiled within a test."""

from __future__ import annotations

from hypothesis import settings

# what a machine compiles or swaps in between says nothing about the code
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
