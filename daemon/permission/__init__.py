"""Permissions: pure rules, and the service that asks the user."""
