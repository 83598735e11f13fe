"""What makes the start of the daemon quick enough: its imports, without what nobody uses.

Measured: half of the processor time until the daemon answers is the making of lsprotocol's 554 classes, and a
quarter of the whole is saved here.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Generator


@contextlib.contextmanager
def quick_imports() -> Generator[None]:
    """Import pygls and lsprotocol for the first time inside of this.

    No garbage collection meanwhile: what is imported stays, and going through it again and again finds nothing. And
    lsprotocol's classes get no generated ``__repr__``, whose text attrs would write and compile for each of them.
    """
    import attrs

    collecting = gc.isenabled()
    define = attrs.define
    gc.disable()
    attrs.define = functools.partial(define, repr=False)
    try:
        yield
    finally:
        attrs.define = define
        if collecting:
            gc.enable()
