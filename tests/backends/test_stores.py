"""The suite for stores, on ctxkit's own."""

from __future__ import annotations

from ctxkit.offload import FileStore, MemoryStore
from ctxkit.testing import StoreSuite


class TestMemoryStore(StoreSuite):
    durable = False

    def open_store(self, place):
        return MemoryStore()


class TestFileStore(StoreSuite):
    def open_store(self, place):
        return FileStore(place)
