"""The fake API server and its clients, as the tests of `cluster` have them."""

from __future__ import annotations

from tests.cluster.conftest import api, client, connect

__all__ = ["api", "client", "connect"]
