"""User-defined hooks: they run at key moments and may deny an action."""
