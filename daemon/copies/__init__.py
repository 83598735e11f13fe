"""Copies of the working tree, as it is with all its uncommitted changes, for branches to work in."""
