"""Rival approaches side by side: branches in copies of the working tree, compared on facts, merged (seed 000)."""
