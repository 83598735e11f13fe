"""The newest frames of a watched trace, kept once for all its clients. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from daemon.api.frames import EncodedItem, Wants


@dataclass(frozen=True, slots=True)
class NextFrames:
    """What a client is written next."""

    frames: bytes
    next: int
    """Place of the first entry that is not among it."""
    event_id: int
    """The last event that it has with it."""


class Ring:
    """Entries by their place, which only grows; the oldest go first."""

    def __init__(self, floor: int, *, frames: int, size: int) -> None:
        """``floor``: every event above this id will be added. ``size``: in bytes."""
        self.floor = floor
        """Who has this event, or a later one, misses nothing that is not here."""
        self.newest = floor
        self._begin = 0
        """Place of the first entry."""
        self._entries: list[EncodedItem] = []
        self._size = 0
        self._last: tuple[tuple[object, ...], NextFrames] | None = None
        """What was asked last, and the answer."""
        self._most_frames = frames
        self._most_size = size

    @property
    def end(self) -> int:
        """Place of the next entry."""
        return self._begin + len(self._entries)

    def add(self, entries: Sequence[EncodedItem]) -> None:
        """Append, and let the oldest go."""
        for entry in entries:
            self._entries.append(entry)
            self._size += entry.size
            self.newest = max(self.newest, entry.event_id)
        gone = 0
        # The newest stays, however large it is.
        while gone < len(self._entries) - 1 and (
            len(self._entries) - gone > self._most_frames or self._size > self._most_size
        ):
            entry = self._entries[gone]
            self._size -= entry.size
            self.floor = max(self.floor, entry.event_id)
            gone += 1
        del self._entries[:gone]
        self._begin += gone

    def reset(self, floor: int) -> None:
        """Forget everything up to an event, also where it was not added: whoever is behind it reads the log."""
        # One more: also a client that had everything is behind now.
        self._begin = self.end + 1
        self._entries.clear()
        self._size = 0
        self.floor = self.newest = max(floor, self.newest)

    def place_after(self, event_id: int) -> int | None:
        """Where a client goes on that has this event; None: the ring does not reach back that far."""
        if event_id < self.floor:
            return None
        place = self.end
        for entry in reversed(self._entries):
            if entry.event_id and entry.event_id <= event_id:
                break
            place -= 1
        return place

    def take(
        self, place: int, event_id: int, wants: Wants, *, size: int, delta_lag: int, deltas_from: int = 0
    ) -> NextFrames | None:
        """What comes from ``place`` on, about ``size`` bytes of it; None: it is no longer here.

        ``event_id``: what the client has already. Deltas are left out for who is ``delta_lag`` entries behind, and
        those before the place ``deltas_from``: they have no id by which a client could know that it has them.
        """
        if place < self._begin:
            return None
        if self.end - place > delta_lag:
            deltas_from = self.end
        # Clients that keep up are all at the same place.
        deltas_from = max(place, deltas_from)
        asked = (place, event_id, wants, size, deltas_from, self.end)
        if self._last is None or self._last[0] != asked:
            self._last = (asked, self._taken(place, event_id, wants, size=size, deltas_from=deltas_from))
        return self._last[1]

    def _taken(self, place: int, event_id: int, wants: Wants, *, size: int, deltas_from: int) -> NextFrames:
        pieces: list[bytes] = []
        total = 0
        while place < self.end and total < size:
            entry = self._entries[place - self._begin]
            place += 1
            if entry.event_id:
                if entry.event_id <= event_id:
                    continue
                event_id = entry.event_id
            elif place <= deltas_from:  # ``place`` is that of the next one by now
                continue
            piece = entry.of(wants)
            if piece:
                pieces.append(piece)
                total += len(piece)
        return NextFrames(b"".join(pieces), place, event_id)
