"""What makes the start of the daemon quick enough: lsprotocol without what nobody uses.

Measured: half of the processor time until the daemon answers is the making of lsprotocol's 554 classes; a third of
that, and 2 MB, is saved here. (No garbage collection during the imports was tried too: it saves nothing that can be
measured and costs 8 MB.)
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Generator


@contextlib.contextmanager
def quick_imports() -> Generator[None]:
    """Import pygls and lsprotocol for the first time inside of this.

    lsprotocol's classes get no ``__repr__`` of their own, whose text attrs would write and compile for each of them.
    """
    import attrs

    define = attrs.define
    attrs.define = functools.partial(define, repr=False)
    try:
        yield
    finally:
        attrs.define = define
