"""What LSP editors are offered: code actions, lenses, progress, questions, diagnostics."""
