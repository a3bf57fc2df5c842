"""The inner loops over nodes and devices, compiled by numba. Arrays in, integers out; knows no object of ours."""
