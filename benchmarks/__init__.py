"""What is measured: kernels, webhooks, throughput on a real control plane.

`python -m benchmarks` runs them.
"""
