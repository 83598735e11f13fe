"""Agent profiles: who the model is, and what it may not do. One Markdown file an agent."""
