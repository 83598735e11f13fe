"""Sessions that work for another one: sub-agents, and successors that implement a design or a plan."""
