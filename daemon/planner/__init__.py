"""Plan-and-execute on top of the same loop: the plan is the goal tree itself."""
