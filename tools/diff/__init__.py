"""Diffs of files and their three-way merge."""
