"""`python -m extender_api` is `tangram`."""

from __future__ import annotations

import sys

from extender_api.cli import main

sys.exit(main())
