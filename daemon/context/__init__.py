"""What the model sees: the prompt's layers and the window on the history."""
