"""The sandbox in which commands run that nobody was asked about."""
