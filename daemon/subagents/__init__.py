"""Sessions that work for another one: sub-agents, and who takes over a design or a plan."""
