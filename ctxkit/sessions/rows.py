"""The row that a store keeps beside a state: what it is, how it advances, and its JSON in the seed's words."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ctxkit.sessions.store import SessionEntry

_MS: Final = 1000
_LARGEST: Final = 1 << 63


def next_row(
    session_id: str,
    given: SessionEntry | None,
    before: SessionEntry | None,
    *,
    now: float,
    size: int,
    session_file: str | None = None,
) -> SessionEntry:
    """Return the row of a session that is saved now.

    Args:
        session_id: The session.
        given: What the caller says of it; `None` keeps what was said before.
        before: Its row so far; `None` where there is none.
        now: Seconds since the epoch; kept in whole milliseconds, and never the same twice running, so that a row tells
            whether its session was saved since.
        size: Bytes of what is saved.
        session_file: Path of its transcript.
    """
    updated_at = round(now * _MS) / _MS
    if before is not None and updated_at == before.updated_at:
        updated_at = (round(now * _MS) + 1) / _MS
    row = given or before or SessionEntry(session_id=session_id, updated_at=updated_at)
    return replace(row, session_id=session_id, updated_at=updated_at, size=size, session_file=session_file)


def row_to_json(row: SessionEntry) -> dict[str, Any]:
    """Return a row as plain JSON; `updatedAt` in milliseconds."""
    return {
        "sessionId": row.session_id,
        "sessionFile": row.session_file,
        "agentId": row.agent_id,
        "updatedAt": round(row.updated_at * _MS),
        "contextTokens": row.context_tokens,
        "totalTokens": row.total_tokens,
        "totalTokensFresh": row.total_tokens_fresh,
        "compactionCount": row.compaction_count,
        "size": row.size,
        "delivery": dict(row.delivery),
    }


def row_from_json(raw: object) -> SessionEntry:
    """Return the row in plain JSON; what is missing or of another kind but for id and time is as if never said.

    Raises:
        ValueError: It has no id or no time.
    """
    if (
        not isinstance(raw, Mapping)
        or not isinstance(raw.get("sessionId"), str)
        or _number(raw.get("updatedAt")) is None
    ):
        msg = f"{str(raw)[:100]!r} is no row of a session: it has no sessionId or no updatedAt"
        raise ValueError(msg)
    delivery, file, agent = raw.get("delivery"), raw.get("sessionFile"), raw.get("agentId")
    return SessionEntry(
        session_id=raw["sessionId"],
        updated_at=raw["updatedAt"] / _MS,
        session_file=file if isinstance(file, str) else None,
        agent_id=agent if isinstance(agent, str) else "main",
        context_tokens=_number(raw.get("contextTokens")),
        total_tokens=_number(raw.get("totalTokens")),
        total_tokens_fresh=raw.get("totalTokensFresh") is True,
        compaction_count=_number(raw.get("compactionCount")) or 0,
        size=_number(raw.get("size")) or 0,
        delivery={str(key): str(value) for key, value in delivery.items()} if isinstance(delivery, Mapping) else {},
    )


def _number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LARGEST:
        return None  # also what is no number, as JSON has it
    return int(value)
