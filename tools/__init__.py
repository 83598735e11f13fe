"""The tools the model works with: they read and change the workspace, and know nothing of who calls them."""
