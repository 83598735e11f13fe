"""The language servers that end-to-end tests talk to: installed here, tried by ``python -m
tests.evals.language_servers``."""
