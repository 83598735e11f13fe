"""The workspace's files in a session: files that were read, files that were changed, and changes by others."""
