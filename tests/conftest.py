"""Settings of the whole suite: how many tests run at once, how often a property is tried, what the time goes to."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator

import pytest

from tests.part_times import NEXT_TEST, PartTimes, is_in_vscode
from tests.support.examples import register_profile
from tools.localization import DEFAULT, set_language

register_profile()


@pytest.fixture
def english_again() -> Generator[None]:
    """For a test in which a daemon of this process changes the language."""
    yield
    set_language(DEFAULT)


@pytest.fixture
def chinese(english_again: None) -> None:
    """Everything that users read is Chinese while the test runs."""
    set_language("zh-CN")


def pytest_configure(config: pytest.Config) -> None:
    """In the process that reports: measure, and end on TERM as on Ctrl-C, so that workers stop what they started."""
    if hasattr(config, "workerinput"):
        return
    config.pluginmanager.register(PartTimes())
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One worker more than cores: many tests wait for a process or a window. (For ``pytest -n auto``.)"""
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests in real VS Code in front: then one worker has them all, beside short tests of the others.

    Three windows at once take all of a small machine, and each of them three times as long. Tests with a window of
    their own come first, because the one that the others share costs processor time as long as it is open.
    """
    items.sort(key=lambda item: (not is_in_vscode(item), "with_model" in getattr(item, "fixturenames", ())))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Leave a note for fixtures that last for several tests."""
    item.stash[NEXT_TEST] = nextitem


def pytest_collection_finish() -> None:
    """Keep the garbage collector from walking over thousands of collected tests again and again."""
    gc.collect()
    gc.freeze()
