"""What there is: nodes, devices, MIG resources, domains, real and virtual. Imports nothing of ours."""
