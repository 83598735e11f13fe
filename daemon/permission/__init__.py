"""Who may do what: pure rules, and the service that asks the person."""
