"""Text: decoding, truncation, and what a terminal may be shown."""
