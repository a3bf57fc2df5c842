"""The demo: a cluster in memory, a scheduler that calls like kube-scheduler, pods from a real trace."""
