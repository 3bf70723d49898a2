"""What tests of several files ask for by name."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ctxkit.sessions import MemorySessionStore, SessionStore, SqliteSessionStore, TranscriptSessionStore


@pytest_asyncio.fixture(params=["memory", "sqlite", "transcript"])
async def store(request: pytest.FixtureRequest, tmp_path) -> AsyncIterator[SessionStore]:
    """Each kind of session store, empty."""
    made = {
        "memory": MemorySessionStore,
        "sqlite": lambda: SqliteSessionStore(tmp_path / "sessions.db"),
        "transcript": lambda: TranscriptSessionStore(tmp_path / "agents"),
    }[request.param]()
    yield made
    await made.aclose()
