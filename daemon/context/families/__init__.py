"""What each family of models needs to be told: the provider layer of the system prompt, one Markdown file a family."""
