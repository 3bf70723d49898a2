"""What tests of several files ask for by name."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ctxkit import LadderConfig
from ctxkit.sessions import MemorySessionStore, SessionStore, SqliteSessionStore, TranscriptSessionStore


@pytest.fixture
def only_summaries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make room by summaries alone where a test names no other ladder: it is about them, and less would often do."""
    monkeypatch.setitem(LadderConfig.__init__.__kwdefaults__, "rungs", ("summarize",))


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
