"""The state of a session, folded from its events: shared by the running session, its store and its readers. Pure."""
