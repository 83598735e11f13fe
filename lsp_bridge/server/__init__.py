"""The JSON-RPC server for the extension and for LSP editors."""
