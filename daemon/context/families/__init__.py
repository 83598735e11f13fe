"""Prompts for families of models: the provider layer of the system prompt, one Markdown file for each family."""
