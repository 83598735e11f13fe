"""Where an edit goes: how far texts may differ, how the new text is adapted, and when an edit is refused."""
