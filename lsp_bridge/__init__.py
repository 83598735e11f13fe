"""The protocol server of the daemon, the client of language servers, and the command line."""
