"""``goalwright run``: one turn at a terminal."""
