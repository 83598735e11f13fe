"""What the daemon offers to, and asks of, an attached editor by LSP's own means."""
