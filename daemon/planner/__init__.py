"""Plan-and-execute on top of the same loop: the plan is the goal tree itself (source: seed 002 §3 and §4)."""
