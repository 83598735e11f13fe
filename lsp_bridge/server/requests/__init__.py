"""Answers to the ``goalwright/…`` requests of clients."""
