"""Policies that choose among the nodes that fit, and what they know of the demand."""
