"""Where things go: state arrays, kernels, requests, planner, ledger. Decides; does no I/O."""
