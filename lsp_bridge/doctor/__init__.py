"""What ``goalwright doctor`` finds out: which language servers there are here, what is missing, and what is wrong."""
