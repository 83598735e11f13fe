"""The daemon as a client of language servers."""
