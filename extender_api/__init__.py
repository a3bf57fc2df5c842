"""The outside world: webhooks, the Kubernetes client, the ops API and the command line."""

__version__ = "0.1.0"
