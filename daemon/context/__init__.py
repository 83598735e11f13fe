"""The model's context: the layers of the prompt, and the window on the history."""
