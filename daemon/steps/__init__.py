"""The step tree (source: seed 003): a view of a trace that is derived from its events and stored nowhere."""
