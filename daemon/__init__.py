"""The daemon: the agent loop, the permission service and the record of everything that happened."""
