"""The version of the product."""

from __future__ import annotations

import functools
from importlib.metadata import PackageNotFoundError, version


@functools.cache
def product_version() -> str:
    """Return the installed version, e.g. ``0.1.0``."""
    try:
        return version("goalwright")
    except PackageNotFoundError:
        return "0"
