"""The process of one language server and the JSON-RPC connection to it."""
