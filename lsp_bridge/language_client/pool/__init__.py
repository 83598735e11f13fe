"""All language servers of a workspace: which are chosen, started and stopped."""
