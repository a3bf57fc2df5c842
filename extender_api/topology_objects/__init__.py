"""Topologies as administrators write them: our kind, KAI's kind, and the CRD."""
