"""Queues as administrators write them: our kind, KAI's kind, the CRD, and files."""
