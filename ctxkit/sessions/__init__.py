"""Sessions: what saves, locks, repairs, restores and retires them."""

from ctxkit.sessions.store import SavedSession, SessionEntry, SessionStore

__all__ = ["SavedSession", "SessionEntry", "SessionStore"]
