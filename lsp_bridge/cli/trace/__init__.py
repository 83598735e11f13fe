"""``goalwright trace``: stored traces."""
