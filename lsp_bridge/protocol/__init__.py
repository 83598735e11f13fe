"""The wire between the daemon and its clients: handshake, requests, notifications."""
