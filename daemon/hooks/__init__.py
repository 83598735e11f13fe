"""Code of the person's that is told of key moments and may say no (mission M16, seed 004 §7.4), see docs/hooks.md."""
