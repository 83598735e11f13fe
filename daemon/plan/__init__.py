"""The plan: operations on the goal tree, and the plan as text for the model."""
