"""Agent profiles: the model's role and the limits of what it may do. One Markdown file for each agent."""
