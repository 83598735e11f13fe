"""Servers of the Model Context Protocol: their tools, for the sessions of a daemon."""
