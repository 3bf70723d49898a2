"""What an agent is given of a saved session: mended, cut by the rule, and nothing thrown away that is stored nowhere."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ctxkit.errors import StoreReadError
from ctxkit.host import _compat
from ctxkit.host._attached import attached_to
from ctxkit.host._codec import HostCodec
from ctxkit.host._offload import guard_for
from ctxkit.host._session_state import apply_state, ids_of, load_state
from ctxkit.host.compression import CompressionMiddleware
from ctxkit.host.context_config import settings_of
from ctxkit.offload.redact import redactor_of
from ctxkit.sessions import newest_turns
from ctxkit.sessions.encoding import messages_of
from ctxkit.sessions.repair import repair_context
from ctxkit.sessions.unanswered import unanswered

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from agentscope.agent import Agent
    from agentscope.message import Msg
    from agentscope.state import AgentState

    from ctxkit.offload import OffloadGuard
    from ctxkit.sessions import SavedSession

logger = logging.getLogger("ctxkit.sessions")

RestoreRule = Literal["whole", "texts"]
"""What of a saved session an agent is given: all of it, or what was said in the newest turns."""

_DAMAGED = "ctxkit-damaged"
"""Name of the message as which an entry is stored that is none."""
_SUMMARY = "ctxkit-summary"
"""Name of the message as which a summary is stored that is not restored."""


@dataclass(frozen=True, kw_only=True)
class Restored:
    """What came of a saved session."""

    session_id: str
    messages: int
    """Messages that the agent was given."""
    rule: RestoreRule
    """What was given: a session that waits for a person is given whole, whatever the rule."""
    updated_at: float
    """Seconds since the epoch at which it was saved."""
    repairs: tuple[str, ...] = ()
    """What was mended, one line each."""
    dropped: int = 0
    """Messages that the rule or the repair left out, in whole or in part; they were stored first, where there is a place."""


class Restoring:
    """Gives one agent a saved session.

    Args:
        agent: The agent; its state is changed in one step at the end, or not at all.
        rule: What to give.
        max_turns: Turns that the application allows a context, from which the rule `texts` takes its number.
    """

    def __init__(self, agent: Agent, *, rule: RestoreRule, max_turns: int) -> None:
        self._agent = agent
        self._id = agent.state.session_id
        self._rule = rule
        self._max_turns = max_turns
        self._codec = HostCodec()
        self.given: frozenset[str] = frozenset()
        """Ids of the messages that the agent was given."""

    async def leave(self, saved: SavedSession) -> None:
        """Let an agent keep the context that it has; what it lacks of the saved one is stored.

        Raises:
            StoreReadError: The session cannot be read, or what would be saved over could not be stored.
        """
        theirs = await self._load(saved)
        mine = ids_of(self._agent.state.context)
        lacks = [message for message in theirs.context if message.id not in mine]
        if theirs.summary and theirs.summary != self._agent.state.summary:
            lacks.append(self._as_message(saved.state["summary"], name=_SUMMARY))
        await self.secure(lacks)
        logger.info(
            "agent %r has a context of its own, the saved session %r is not restored", self._agent.name, self._id
        )

    async def give(self, saved: SavedSession, *, known: Collection[str], is_start: bool) -> Restored:
        """Give an agent its session.

        Args:
            saved: The session.
            known: Ids of the messages that the agent had when it was saved last. What it has beside them, also what comes
                meanwhile, stays behind what is restored.
            is_start: Whether the agent is new; else another owner has gone on with its session, which it gets whole.

        Raises:
            StoreReadError: The session cannot be read, or what is left out of it could not be stored.
        """
        loaded = await self._load(saved)
        rule: RestoreRule = self._rule if is_start else "whole"
        if loaded.has_awaiting_tool_calls(self._agent.name):
            rule = "whole"  # what it waits for is no text
        repairs = list(saved.repairs)
        left: list[Msg] = []
        asked = unanswered(saved.state, messages_of(saved.state))
        if asked:
            repairs.append(
                "nobody has answered yet: the request is left out, so that it stands there once when it is sent again"
            )
            left = [message for message in loaded.context if message.id in asked]
            loaded.context = [message for message in loaded.context if message.id not in asked]
        elif rule == "texts":
            loaded, left = await self._texts_of(saved)
        mended = repair_context(
            loaded.context, agent_name=self._agent.name, reply_id=loaded.reply_id, codec=self._codec
        )
        repairs += [f"{repair.kind}: {repair.what}" for repair in mended.repairs]
        dropped = [*left, *mended.dropped]
        if rule != "texts":
            await self.secure(dropped)
        elif not await self.store(dropped):
            logger.error("the texts of session %r are not enough: what they leave out could not be stored", self._id)
            whole = Restoring(self._agent, rule="whole", max_turns=self._max_turns)
            restored = await whole.give(saved, known=known, is_start=is_start)
            self.given = whole.given
            return restored
        loaded.context = list(mended.messages)
        restored = Restored(
            session_id=self._id,
            messages=len(loaded.context),
            rule=rule,
            updated_at=saved.entry.updated_at,
            repairs=tuple(repairs),
            dropped=len(dropped),
        )
        self.given = ids_of(loaded.context)
        live = self._agent.state
        added = [message for message in live.context if message.id not in known and message.id not in self.given]
        apply_state(live, loaded, added=added, is_start=is_start)
        return restored

    async def _load(self, saved: SavedSession) -> AgentState:
        """Return the saved state; what in its context is no message is stored aside."""
        try:
            state, damaged = await load_state(saved.state)
        except ValueError as exc:
            msg = f"The state of session {saved.entry.session_id!r} cannot be read: {exc}. Try `ctxkit repair`."
            raise StoreReadError(msg) from exc
        aside = [self._as_message(entry, name=_DAMAGED) for entry in damaged]
        if not await self.store(aside, must_have_a_place=True):
            msg = (
                f"{len(damaged)} entries in the context of session {saved.entry.session_id!r} are no messages, and there "
                "is no place to store them. Try `ctxkit repair`, or give the agent an offloader."
            )
            raise StoreReadError(msg)
        return state

    async def _texts_of(self, saved: SavedSession) -> tuple[AgentState, list[Msg]]:
        """Return the state by the rule `texts`, and what it leaves out."""
        kept = newest_turns(saved.state, max_turns=self._max_turns)
        state, _ = await load_state(kept.state)
        whole, _ = await load_state({"context": list(kept.dropped)})
        if kept.dropped_summary:
            whole.context.append(self._as_message(kept.dropped_summary, name=_SUMMARY))
        return state, whole.context

    async def secure(self, messages: Iterable[Msg]) -> None:
        """Store messages that are about to be dropped or saved over.

        Raises:
            StoreReadError: There is a place for them, and it failed: the session must stay as it is.
        """
        if not await self.store(messages):
            msg = (
                f"What session {self._id!r} would lose could not be stored, so it is not loaded and nothing is saved over "
                "it. Mend the offloader of the agent."
            )
            raise StoreReadError(msg)

    async def store(self, messages: Iterable[Msg], *, must_have_a_place: bool = False) -> bool:
        """Store messages that the agent will not have; return whether they are safe, or there is no place for such."""
        gone = list(messages)
        if not gone:
            return True
        guard = guard_of(self._agent)
        stored = await guard.store_messages(self._id, gone)
        if stored.reference is not None:
            return True
        has_place = self._agent.offloader is not None or guard.store is not None
        if has_place:
            logger.error("%d messages of session %r could not be stored: %s", len(gone), self._id, stored.error)
        return not has_place and not must_have_a_place

    def _as_message(self, entry: object, *, name: str) -> Msg:
        text = entry if isinstance(entry, str) else json.dumps(entry, ensure_ascii=True, default=str)
        return self._codec.assistant_message([self._codec.text(text)], name=name)


def guard_of(agent: Agent) -> OffloadGuard:
    """Return the guard through which an agent's content is stored, made where its compression has not begun yet."""
    attached = attached_to(agent)
    if attached is not None and attached.offloader is agent.offloader:
        return attached.engine.guard
    local = next((m.local_store for m in _compat.middlewares_of(agent) if isinstance(m, CompressionMiddleware)), None)
    settings = settings_of(agent.context_config)
    return guard_for(agent, settings.offload, local_store=local, redactor=redactor_of(settings.privacy))


def has_own_context(agent: Agent) -> bool:
    """Whether an agent has a summary or an answer of its own; one that has only observed has not."""
    state = agent.state
    return bool(state.summary) or any(m.role == "assistant" and m.name == agent.name for m in state.context)


def to_json(restored: Restored) -> Mapping[str, Any]:
    """Return what an event says of a restored session."""
    return {
        "messages": restored.messages,
        "rule": restored.rule,
        "updated_at": restored.updated_at,
        "repairs": list(restored.repairs),
    }
