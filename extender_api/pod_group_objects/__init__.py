"""PodGroups of our kind, and the CRD."""
