"""Positions, URIs and diagnostics as language servers write them."""
