"""The features for LSP editors: code actions, lenses, progress, questions, diagnostics."""
