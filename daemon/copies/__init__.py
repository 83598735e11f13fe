"""Copies of the working tree, including all uncommitted changes, for branches to work in."""
