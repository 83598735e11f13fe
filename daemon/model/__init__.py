"""The product's data: frozen pydantic models without any I/O."""
