"""Every test here runs over every back end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon.store.trace_store import TraceStore
from tests.support.drivers.postgres import give_back
from tests.support.scenarios.stores import BACKENDS, trace


@pytest.fixture(params=sorted(BACKENDS))
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def open_store(backend: str, tmp_path: Path) -> Iterator[Callable[[str], TraceStore]]:
    """Opens the store of the given name; twice the same name is twice the same folder."""
    stores: list[TraceStore] = []
    folders: set[Path] = set()

    def make(name: str = "store") -> TraceStore:
        (tmp_path / name).mkdir(exist_ok=True)
        folders.add(tmp_path / name)
        stores.append(BACKENDS[backend](tmp_path / name))
        return stores[-1]

    yield make
    for store in stores:
        store.close()
    for folder in folders:
        give_back(folder)


@pytest.fixture
def empty(open_store: Callable[[str], TraceStore]) -> TraceStore:
    return open_store("store")


@pytest.fixture
def store(empty: TraceStore) -> TraceStore:
    """With one trace in it, ``ID``."""
    empty.create(trace())
    return empty
