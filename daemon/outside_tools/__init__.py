"""Tools that are not built in: checked definitions, questions about them, and approvals of one definition."""
