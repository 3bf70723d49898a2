"""The suite for stores, on ctxkit's own and on one that offers everything."""

from __future__ import annotations

import pytest

from ctxkit.offload import FileStore, MemoryStore
from ctxkit.testing import StoreSuite

from .able import AbleStore
from .failing import FULL, disk_failures


@pytest.mark.row("X15")
class TestMemoryStore(StoreSuite):
    durable = False

    def open_store(self, place):
        return MemoryStore()


@pytest.mark.row("X15", "A9")
class TestFileStore(StoreSuite):
    def open_store(self, place):
        return FileStore(place)

    def outages(self, place):
        return disk_failures()


@pytest.mark.crash
@pytest.mark.skipif(not FULL, reason="the long form runs where CTXKIT_CRASH_FULL is set: nox -s crash")
class TestFileStoreForLong(TestFileStore):
    """The same for longer, as the suite asks it: it takes tens of minutes."""

    timeout_s = 1800.0
    kills = 300
    writers = 8
    appends = 1000
    tasks = 1024


@pytest.mark.row("X15")
class TestAbleStore(StoreSuite):
    """It shares within a process: what is asked of several processes and of a crash is left out."""

    processes = False
    kills = 0

    async def open_store(self, place):
        return AbleStore(place)
