"""Diagnostics of a change, judged over all language servers."""
