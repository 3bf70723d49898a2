"""What saves the sessions of agents, so that a new process goes on where the last one ended."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, kw_only=True)
class SessionEntry:
    """What is known of a saved session without loading it, one row of the index."""

    session_id: str
    updated_at: float
    """Seconds since the epoch at which it was saved last."""
    session_file: str | None = None
    """Path of its transcript; `None` in a store without files."""
    agent_id: str = "main"
    context_tokens: int | None = None
    """Tokens of the model's context window."""
    total_tokens: int | None = None
    """Latest measured tokens of a request."""
    total_tokens_fresh: bool = False
    """Whether they are of the latest run."""
    compaction_count: int = 0
    """How often its context was compressed."""
    size: int = 0
    """Bytes of what is saved."""
    delivery: Mapping[str, str] = field(default_factory=dict)
    """Where its answers go (channel, peer, thread), as the application has set it."""


@dataclass(frozen=True, kw_only=True)
class SavedSession:
    """A saved session."""

    state: Mapping[str, Any]
    """AgentScope's own `AgentState` as plain JSON: `AgentState.model_validate(state)` loads it without ctxkit."""
    entry: SessionEntry
    repairs: Sequence[str] = ()
    """What was broken in what is stored and how it was read all the same, one line each."""


@runtime_checkable
class SessionStore(Protocol):
    """Saves the states of agents by session.

    - **Durable and atomic**: after `save` has returned, the state survives the death of process and machine; whenever
      they die, the one saved before or the new one is there, whole.
    - **Fenced**: a `save` with an epoch below the highest one that was ever used on the session is refused.
    - **Contained**: any text is a valid session id, and no two of them share anything.
    """

    async def save(
        self, session_id: str, state: Mapping[str, Any], *, entry: SessionEntry | None = None, epoch: int | None = None
    ) -> None:
        """Save the state of a session in place of the one before.

        Args:
            session_id: The session.
            state: `AgentState.model_dump(mode="json")`.
            entry: What the index says of it; its id, time, file and size are set by the store. `None` keeps what it said.
            epoch: The owner's number; `None` where nobody else can hold the session.

        Raises:
            StaleOwnerError: A higher epoch has saved or fenced the session.
            StoreWriteError: It could not be saved; the state saved before stays.
        """
        ...

    async def load(self, session_id: str) -> SavedSession | None:
        """Return a saved session, or None where there is none.

        Raises:
            NewerFormatError: A newer ctxkit saved it.
            StoreReadError: It is there but cannot be read, whole or from what can be repaired.
        """
        ...

    def list(self) -> AsyncIterator[SessionEntry]:
        """Yield all sessions, the last saved first.

        Raises:
            StoreReadError: They cannot be read.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Remove a session; an unknown one is no error.

        Raises:
            StoreWriteError: It could not be removed.
        """
        ...

    async def fence(self, session_id: str, epoch: int) -> None:
        """Refuse every later `save` of a session with a lower epoch.

        Raises:
            StaleOwnerError: A higher epoch has been used already.
            StoreWriteError: The fence could not be stored.
        """
        ...

    def lock_path(self, session_id: str) -> str | None:
        """Return the path of the file whose lock makes one owner of a session; `None` where no file can."""
        ...

    async def aclose(self) -> None:
        """Close what is open; what was saved stays."""
        ...
