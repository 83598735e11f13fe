"""The tools of the user: Python functions of installed packages, and executables with a JSON schema."""
