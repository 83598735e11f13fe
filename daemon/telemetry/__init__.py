"""OpenTelemetry: spans and metrics of sessions, sent to a collector if the user wants it."""
