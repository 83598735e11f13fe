"""How many language servers may run at once, in one workspace or in all copies of it together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from lsp_bridge.language.slots import Slot


class Tenant(Protocol):
    """A set of language servers; all tenants of a room go by the same clock."""

    def in_use(self) -> Iterator[Slot]:
        """The places that have a server."""
        ...

    def stop(self, slot: Slot, reason: str) -> None:
        """Stop the server of a place, in the background."""
        ...


class Room:
    """See the module. The least recently used servers make place for new ones."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._tenants: list[Tenant] = []

    def enter(self, tenant: Tenant) -> None:
        """Its servers count from now on."""
        self._tenants.append(tenant)

    def leave(self, tenant: Tenant) -> None:
        """Its servers count no more."""
        if tenant in self._tenants:
            self._tenants.remove(tenant)

    def make(self, now: float) -> None:
        """For one more. Servers that were asked for in the same moment are not stopped."""
        alive = [(slot, tenant) for tenant in self._tenants for slot in tenant.in_use()]
        surplus = len(alive) - self._most + 1
        for slot, tenant in sorted(alive, key=lambda one: one[0].used_at)[: max(0, surplus)]:
            if slot.used_at < now:
                tenant.stop(slot, f"more than {self._most} servers were needed")
