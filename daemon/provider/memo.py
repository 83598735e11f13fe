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
    """The newest result of a calculation, or the newest few, as long as what they were made of stays."""

    __slots__ = ("_held", "_most")

    def __init__(self, most: int = 1) -> None:
        self._held: tuple[tuple[tuple[object, ...], object, V], ...] = ()
        """The one that was wanted last comes first."""
        self._most = most

    def get(self, make: Callable[[], V], *, same: tuple[object, ...] = (), equal: object = ()) -> V:
        """Return a kept result of ``make``. It is called when ``same`` has other objects, or ``equal`` another value,
        than in the calls whose results are kept."""
        for one in self._held:
            if one[1] == equal and all(map(is_, one[0], same)):
                break
        else:
            one = (same, equal, make())
        if not self._held or one is not self._held[0]:
            others = [other for other in self._held if other is not one]
            self._held = (one, *others[: self._most - 1])
        return one[2]


class Tally(Generic[K, V]):
    """Something counted over a tuple that mostly grows at its end: what was counted is not looked at again."""

    __slots__ = ("_add", "_begin", "_counted", "_found")

    def __init__(self, begin: Callable[[], V], add: Callable[[V, K], None]) -> None:
        """``begin`` returns what is known of no items; ``add`` adds one to it."""
        self._begin, self._add = begin, add
        self._counted: tuple[K, ...] = ()
        self._found = begin()

    def of(self, items: tuple[K, ...]) -> V:
        """Return what was counted. It is shared by all calls: it must not be changed."""
        if items[: len(self._counted)] != self._counted:  # quick: equal items are mostly the same objects
            self._counted, self._found = (), self._begin()
        for item in items[len(self._counted) :]:
            self._add(self._found, item)
        self._counted = items
        return self._found


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
