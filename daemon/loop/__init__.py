"""The agent loop: sessions, turns and steps."""
