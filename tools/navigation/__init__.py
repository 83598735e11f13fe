"""Symbols of the language servers, as the ``symbols`` tool shows and renames them."""
