"""The sandbox of commands that run without approval."""
