"""What makes the start of the daemon quick enough: lsprotocol without what nobody uses.

Measured: half of the processor time until the daemon answers is the making of lsprotocol's 554 classes; half of
that, and 4 MB, is saved here. (No garbage collection during the imports was tried too: it saves nothing that can be
measured and costs 8 MB.)
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any


@contextlib.contextmanager
def quick_imports() -> Generator[None]:
    """Import pygls and lsprotocol for the first time inside of this.

    lsprotocol's classes get no ``__repr__`` and no ``__eq__`` of their own, whose texts attrs would write and compile
    for each of them: they compare by one function for all, which says the same.
    """
    import attrs

    define: Any = attrs.define  # its overloads are for the type checker

    def quick(cls: type[Any] | None = None, **options: Any) -> Any:
        if cls is None or options:
            return define(cls, **{"repr": False, **options})
        made = define(cls, repr=False, eq=False)
        if "__eq__" not in cls.__dict__:
            made.__eq__ = _equal
            made.__hash__ = None  # as attrs does for what can be changed
        return made

    attrs.define = quick
    try:
        yield
    finally:
        attrs.define = define


def _equal(one: Any, other: object) -> bool:
    if other.__class__ is not one.__class__:
        return NotImplemented
    return all(getattr(one, a.name) == getattr(other, a.name) for a in one.__attrs_attrs__ if a.eq)
