"""``goalwright doctor``: checks of the installation and the language servers."""
