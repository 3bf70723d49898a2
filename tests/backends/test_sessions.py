"""The suite for session stores, on ctxkit's own."""

from __future__ import annotations

import pytest

from ctxkit.sessions import MemorySessionStore, SqliteSessionStore, TranscriptSessionStore
from ctxkit.testing import SessionStoreSuite


@pytest.mark.row("X15")
class TestMemorySessionStore(SessionStoreSuite):
    durable = False

    def open_store(self, place):
        return MemorySessionStore()


@pytest.mark.row("X15", "C8")
class TestSqliteSessionStore(SessionStoreSuite):
    def open_store(self, place):
        return SqliteSessionStore(place / "sessions.db")


@pytest.mark.row("X15", "O1")
class TestTranscriptSessionStore(SessionStoreSuite):
    def open_store(self, place):
        return TranscriptSessionStore(place)
