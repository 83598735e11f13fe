"""Carries the work of branches to other machines: the wire, the relay into a Ray cluster, and the files."""
