"""A memory over the fakes, and a writer whose model answers by a script."""

from __future__ import annotations

from typing import Any

from ctxkit.config import SummaryConfig
from ctxkit.memory import Leaving, Memory, MemoryWriter
from ctxkit.offload import MemoryStore
from tests.unit.fakes import FakeCodec, agent, call, result, user
from tests.unit.summary.fakes import FakeModel, count

GOOD = "[DAILY]\n- The parser was fixed.\n- Use tabs.\n\n[MEMORY]\nThe parser works; look at line 40 next."
NOON = 1_763_812_800.0
"""2025-11-22 12:00:00 UTC."""


def writer(*answers: Any, model: Any = None, max_tokens: int = 2000, redactor: Any = None) -> MemoryWriter:
    """Return a writer on a model that gives these answers; without any, it has no model."""
    made = model or (FakeModel(plain=list(answers)) if answers else None)
    return MemoryWriter(
        model=made,
        codec=FakeCodec(),
        config=SummaryConfig(attempts=1, retry_delay_s=0),
        max_tokens=max_tokens,
        count=count,
        redactor=redactor,
        nonce=lambda: "n0nce",
    )


def memory(store: Any = None, **kwargs: Any) -> Memory:
    """Return a memory whose clock stands at noon."""
    kwargs.setdefault("time_zone", "UTC")
    kwargs.setdefault("clock", lambda: NOON)
    return Memory(MemoryStore() if store is None else store, FakeCodec(), **kwargs)


def leaving(
    identifier: str = "plan-1", *, session_id: str = "s1", said: str = "Fix the parser.", **kwargs: Any
) -> Leaving:
    """Return a turn that has left a context."""
    messages = (
        user(said),
        agent(call("c1", "read", path="/src/parser.py"), result("c1", "def parse(): ..."), "It is fixed."),
    )
    return Leaving(id=identifier, session_id=session_id, messages=messages, agent="scribe", **kwargs)
