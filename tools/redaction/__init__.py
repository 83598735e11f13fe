"""Secrets: how they are recognised and taken out of texts."""
