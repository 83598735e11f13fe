"""The command line: a client of the daemon that starts without pydantic and pygls."""
