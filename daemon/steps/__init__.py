"""The step tree: a view of a trace that is derived from its events and stored nowhere."""
