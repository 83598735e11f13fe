"""What the events of a session add up to: one fold, for the running session, its store and its readers. Pure."""
