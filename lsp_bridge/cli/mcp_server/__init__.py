"""An MCP server over the sessions of a folder, for other agents: a client of the folder's daemon."""
