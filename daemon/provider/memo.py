"""Results of pure functions on objects that never change, kept as long as the object lives."""

from __future__ import annotations

import weakref
from operator import is_
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

K = TypeVar("K")
V = TypeVar("V")


class Latest(Generic[V]):
    """The newest result of a calculation, as long as what it was made of stays."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: tuple[tuple[object, ...], object, V] | None = None

    def get(self, make: Callable[[], V], *, same: tuple[object, ...] = (), equal: object = ()) -> V:
        """Return the last result of ``make``. It is called again when ``same`` has other objects, or ``equal`` another
        value, than in the last call."""
        held = self._held
        if held is None or held[1] != equal or not all(map(is_, held[0], same)):
            self._held = held = (same, equal, make())
        return held[2]


class Memo(Generic[K, V]):
    """A cache by identity, since comparing or hashing the contents of a message would cost more than it saves.

    Keeps no object alive. Values are shared by all callers: they must not be changed.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[K], V]] = {}

    def get(self, key: K, make: Callable[[K], V]) -> V:
        """Return ``make(key)``, or its cached result."""
        found = self._known.get(id(key))
        # An id may be reused after its object has gone, before the callback below has run.
        if found is not None and found[0]() is key:
            return found[1]
        value = make(key)
        known, number = self._known, id(key)

        def forget(gone: weakref.ref[K]) -> None:
            entry = known.get(number)
            if entry is not None and entry[0] is gone:
                del known[number]

        known[number] = (weakref.ref(key, forget), value)
        return value

    def __len__(self) -> int:
        return len(self._known)
