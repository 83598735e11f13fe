"""Patches: reading both formats, finding the place of every hunk, planning what each file becomes. No writing."""
