"""Access to files that others may have prepared: links, pipes, protected names."""
