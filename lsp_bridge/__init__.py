"""Speaks JSON-RPC to editors and terminals, and LSP to language servers."""
