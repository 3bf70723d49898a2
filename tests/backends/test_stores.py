"""The suite for stores, on ctxkit's own and on one that offers everything."""

from __future__ import annotations

from ctxkit.offload import FileStore, MemoryStore
from ctxkit.testing import StoreSuite

from .able import AbleStore


class TestMemoryStore(StoreSuite):
    durable = False

    def open_store(self, place):
        return MemoryStore()


class TestFileStore(StoreSuite):
    def open_store(self, place):
        return FileStore(place)


class TestAbleStore(StoreSuite):
    """It shares within a process: what is asked of several processes and of a crash is left out."""

    processes = False
    kills = 0

    async def open_store(self, place):
        return AbleStore(place)
