"""Definitions, references, symbols and renames by language servers."""
