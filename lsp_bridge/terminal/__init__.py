"""The terminal client: what `goalwright run` and its sister commands show and ask. Imports nothing heavy."""
