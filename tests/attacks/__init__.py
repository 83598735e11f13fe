"""The attack suite: ``python -m tests.attacks`` prints its table."""
