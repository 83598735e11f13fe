"""Alternative approaches in parallel: branches in copies of the working tree, compared on facts, and merged."""
