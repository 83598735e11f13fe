"""What the session knows of the workspace's files: what was read, what was changed, what changes by itself."""
