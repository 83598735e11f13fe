"""The attack suite: ``python -m tests.evals.attacks`` prints its tables; calls in ``cases.py``, lines in
``lines.py``."""
