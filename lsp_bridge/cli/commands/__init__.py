"""The commands about the daemon and its sessions."""
