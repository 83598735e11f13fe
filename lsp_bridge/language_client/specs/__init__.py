"""The known language servers by file type, and how each is found and set up."""
