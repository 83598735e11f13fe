"""The model's tools: they read and change the workspace, and do not depend on their callers."""
