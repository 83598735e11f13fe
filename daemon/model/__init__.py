"""The words of the product as data: frozen pydantic models without any I/O."""
