"""A quick import of lsprotocol: attrs builds each of its classes on first use.

Importing lsprotocol makes 554 classes, of which a daemon uses about 60. Building them all took a fifth of the time
until the daemon answers: attrs compiles code for each class (https://github.com/python-attrs/attrs/issues/575).
"""

from __future__ import annotations

import contextlib
import threading
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator


@contextlib.contextmanager
def quick_imports() -> Generator[None]:
    """Import pygls and lsprotocol for the first time inside of this.

    The classes get no ``__repr__`` of their own. They compare by one function for all, which gives the same result.
    """
    import attrs

    define: Any = attrs.define  # its overloads are for the type checker

    def quick(cls: type[Any] | None = None, **options: Any) -> Any:
        if cls is None or options or cls.__module__ != "lsprotocol.types":
            return define(cls, **options)
        _Unbuilt(cls, define)
        return cls

    attrs.define = quick
    try:
        yield
    finally:
        attrs.define = define
    _leave_types_unresolved()


_building = threading.RLock()
"""Held while a class is built, which may build the classes that it derives from."""


class _Unbuilt:
    """A placeholder for the attributes of a class until an instance is created or the attributes are read."""

    def __init__(self, cls: Any, define: Any) -> None:
        self._cls = cls
        self._define = define
        cls.__attrs_attrs__ = self
        cls.__init__ = self._first_init()
        if "__eq__" not in cls.__dict__:
            cls.__eq__ = _equal
            cls.__hash__ = None  # as attrs does for mutable classes

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        self._build()
        return owner.__attrs_attrs__

    def _first_init(self) -> Any:
        def init(instance: Any, *args: Any, **kwargs: Any) -> None:
            self._build()
            type(instance).__init__(instance, *args, **kwargs)

        return init

    def _build(self) -> None:
        cls = self._cls
        with _building:
            if cls.__dict__["__attrs_attrs__"] is not self:
                return  # another thread was faster
            import attrs
            from lsprotocol import types

            # Define it in place, so that everyone who holds the class sees it; this rules out slots.
            self._define(cls, slots=False, init=True, repr=False, eq=False)
            attrs.resolve_types(cls, dict(types.ALL_TYPES_MAP), {})  # a copy, because attrs adds to it
            cls.__init__ = _with_own_globals(cls.__init__)


def _with_own_globals(function: FunctionType) -> FunctionType:
    """Return a function with the globals that it uses: attrs gives each a copy of all of its module's, 26 KB."""
    everything = function.__globals__
    names = ("__builtins__", "__name__", *function.__code__.co_names)
    own = {name: everything[name] for name in names if name in everything}
    found = FunctionType(function.__code__, own, function.__name__, function.__defaults__)
    found.__annotations__, found.__kwdefaults__ = function.__annotations__, function.__kwdefaults__
    found.__qualname__ = function.__qualname__
    return found


def _leave_types_unresolved() -> None:
    """Keep the converter from resolving the types of all classes, which would build them; ``_build`` does it."""
    from lsprotocol import _hooks

    _hooks._resolved_forward_references = True  # pyright: ignore[reportPrivateUsage]


def _equal(one: Any, other: object) -> bool:
    if other.__class__ is not one.__class__:
        return NotImplemented
    return all(getattr(one, a.name) == getattr(other, a.name) for a in one.__attrs_attrs__ if a.eq)
