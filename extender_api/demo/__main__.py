"""`python -m extender_api.demo`."""

from __future__ import annotations

from extender_api.demo.command import main

raise SystemExit(main())
