"""The parts of the daemon as a client of language servers; put together in language_server.py beside this."""
