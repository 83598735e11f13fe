"""Skills and slash commands: Markdown files of the user and of trusted workspaces."""
