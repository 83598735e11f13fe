"""The LSP session with one language server."""
