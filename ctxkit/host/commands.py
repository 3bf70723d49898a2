"""`CommandsMiddleware`: answers commands in the chat before a model sees them; `Commands` answers them elsewhere."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from agentscope.event import (
    ReplyEndEvent,
    ReplyStartEvent,
    TextBlockDeltaEvent,
    TextBlockEndEvent,
    TextBlockStartEvent,
)
from agentscope.message import AssistantMsg, Msg, TextBlock
from agentscope.middleware import MiddlewareBase

from ctxkit.commands import COMMANDS, LOCKED, CommandHandler
from ctxkit.config.checks import did_you_mean
from ctxkit.errors import ConfigError, CtxkitError
from ctxkit.host import _changes, _compat
from ctxkit.host._session_agent import AgentSession
from ctxkit.host._sessions import hold_of
from ctxkit.host.context_config import settings_of
from ctxkit.host.memory import MemoryMiddleware
from ctxkit.host.session import SessionMiddleware
from ctxkit.host.steering import compression_of
from ctxkit.sessions import COMPRESSION_GRACE_S

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping

    from agentscope.agent import Agent

    from ctxkit.commands import Change, Given
    from ctxkit.config import Settings
    from ctxkit.engine import Engine

logger = logging.getLogger("ctxkit")

_replying: WeakKeyDictionary[Agent, int] = WeakKeyDictionary()
"""How many replies of an agent run now; one that waits for a person does not."""


class CommandsMiddleware(MiddlewareBase):
    """Answers `/context`, `/config` and their like in the chat: no model is asked, and the context does not grow.

    One instance may serve many agents. Put it first, before `SessionMiddleware`: then a command is answered with the saved
    session at hand, and what it changes is saved. Unknown commands, and texts that only look like one, are the agent's.

    Args:
        commands: The names of the commands that are answered.
        locked: Settings and sections that `/config` shows and does not change; see `ctxkit.commands.LOCKED`. Whoever may
            write into the chat may send commands.
        in_chat: Answer them in replies; off, only `Commands` does.

    Raises:
        ConfigError: There is no command of such a name.
    """

    def __init__(
        self,
        *,
        commands: Collection[str] = COMMANDS,
        locked: Collection[str] = LOCKED,
        in_chat: bool = True,
    ) -> None:
        for name in commands:
            if name not in COMMANDS:
                msg = f"CommandsMiddleware.commands has {name!r}, which is no command{did_you_mean(name, COMMANDS)}"
                raise ConfigError(msg)
        self._names = frozenset(commands)
        self._locked = frozenset(locked)
        self._in_chat = in_chat

    async def get_middleware_key(self) -> str:
        """Return the key of what was changed in `agent.state.middle_context`."""
        return _changes.SLOT

    def handler(self, agent: Agent) -> CommandHandler:
        """Return what answers an agent's commands; for `Commands`, not for users."""
        return CommandHandler(_CommandedAgent(agent), commands=self._names, locked=self._locked)

    async def on_reply(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Answer a command; pass on everything else, with the changed settings in force."""
        before, text = _typed(input_kwargs)
        if self._in_chat and self._is_ours(agent, text, before):
            if before:
                await agent.observe(before)
            answer = await Commands(agent).handle(text)
            for item in _reply_of(agent, answer or ""):
                yield item
            return
        _lay(agent)
        _replying[agent] = _replying.get(agent, 0) + 1
        inner = next_handler()
        try:
            async for item in inner:
                if isinstance(item, ReplyStartEvent):
                    _lay(agent)  # the session has been loaded, and no step begun
                yield item
        finally:
            _replying[agent] -= 1
            await inner.aclose()

    def _is_ours(self, agent: Agent, text: str, before: list[Msg]) -> bool:
        """Whether a text is a command, and what stands before it can be put into the context now."""
        if not self.handler(agent).is_command(text):
            return False
        return not before or not (_replying.get(agent) or agent.state.has_awaiting_tool_calls(agent.name))


class Commands:
    """Answers one agent's commands in any front end: `answer = await Commands(agent).handle(text)`.

    Use it where the front end has its own loop, and while a reply runs: what only looks is then answered at once, and what
    would change something is refused with the reason.

    Args:
        agent: An agent that has a `CommandsMiddleware`.

    Raises:
        ConfigError: It has none.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        found = (each for each in _compat.middlewares_of(agent) if isinstance(each, CommandsMiddleware))
        middleware = next(found, None)
        if middleware is None:
            msg = f"Agent {agent.name!r} has no CommandsMiddleware to answer commands: give it one, as its first middleware."
            raise ConfigError(msg)
        self._handler = middleware.handler(agent)

    async def handle(self, text: str) -> str | None:
        """Carry out a command; what goes wrong is said in the answer.

        Args:
            text: What a person typed.

        Returns:
            The answer; `None` for what is no command, which is for the agent.
        """
        if not self._handler.is_command(text):
            return None
        answer: str | None = None
        try:
            async with self._session(is_change=self._handler.changes_something(text)):
                _lay(self._agent)
                answer = await self._handler.answer(text)
        except CtxkitError as exc:
            answer = str(exc) if answer is None else f"{answer}\nThe session could not be saved: {exc}"
        return answer

    @asynccontextmanager
    async def _session(self, *, is_change: bool) -> AsyncIterator[None]:
        """Have the agent's saved session at hand; where something is changed, own it and save it behind."""
        agent = self._agent
        middleware = next((each for each in _compat.middlewares_of(agent) if isinstance(each, SessionMiddleware)), None)
        if middleware is None or _replying.get(agent):
            yield
            return
        await middleware.attach(agent)
        session = hold_of(agent)
        if not is_change or not isinstance(session, AgentSession):
            yield
            return
        async with session.owned("command", nested=True):
            await session.refresh()
            await session.fence_offload()
            session.extend(settings_of(agent.context_config).summary.timeout_s + COMPRESSION_GRACE_S)
            yield
            session.note_observed()
            await session.save()


class _CommandedAgent:
    """One agent, as commands see it; see `ctxkit.commands.CommandAgent`."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._agent.name

    @property
    def is_replying(self) -> bool:
        """Whether a reply of the agent runs now."""
        return bool(_replying.get(self._agent))

    @property
    def changes(self) -> Mapping[str, Change]:
        """The settings that were changed in the agent's session."""
        return _changes.changes_in(self._agent.state.middle_context)

    def change(self, changes: Mapping[str, Change]) -> None:
        """Let these be the changes of the agent's session."""
        _changes.change(self._agent, changes)

    def given(self, setting: str) -> Given | None:
        """Return what the program has given for a setting; `None` where the agent has no such thing."""
        return _changes.given(self._agent, setting)

    def settings(self) -> Settings:
        """Return the settings that hold now."""
        return settings_of(self._agent.context_config)

    async def engine(self) -> Engine:
        """Return what keeps the agent's context."""
        engine: Engine = await compression_of(self._agent).engine_of(self._agent)
        return engine

    async def remember(self) -> bool:
        """Write the agent's context to its memory, and wait for it; return whether it has one."""
        found = (each for each in _compat.middlewares_of(self._agent) if isinstance(each, MemoryMiddleware))
        memory = next(found, None)
        if memory is None or not self.settings().memory.flush:
            return False
        await memory.remember(self._agent)
        return True


def _lay(agent: Agent) -> None:
    """Let the changed settings hold; what cannot be laid over the program's config ends no reply."""
    try:
        _changes.lay_changes(agent)
    except Exception:
        logger.exception("ctxkit could not change the settings of agent %r", agent.name)


def _typed(input_kwargs: Mapping[str, Any]) -> tuple[list[Msg], str]:
    """Return what a person typed, and the messages before it; no text where it is anything but a text of a user's."""
    given = input_kwargs.get("inputs")
    messages = [given] if isinstance(given, Msg) else given
    # Who asks for structured output wants that and no answer to a command.
    if not isinstance(messages, list) or not messages or input_kwargs.get("structured_schema") is not None:
        return [], ""
    *before, last = messages
    is_text = isinstance(last, Msg) and last.role == "user" and all(block.type == "text" for block in last.content)
    return (before, "\n".join(block.text for block in last.content)) if is_text else ([], "")


def _reply_of(agent: Agent, text: str) -> list[Any]:
    """Return what a reply yields that says a text; the agent's own reply stays the one that ran last."""
    reply_id, block_id, session_id = uuid4().hex, uuid4().hex, agent.state.session_id
    return [
        ReplyStartEvent(session_id=session_id, reply_id=reply_id, name=agent.name),
        TextBlockStartEvent(reply_id=reply_id, block_id=block_id),
        TextBlockDeltaEvent(reply_id=reply_id, block_id=block_id, delta=text),
        TextBlockEndEvent(reply_id=reply_id, block_id=block_id),
        ReplyEndEvent(session_id=session_id, reply_id=reply_id),
        AssistantMsg(
            agent.name, [TextBlock(id=block_id, text=text)], id=reply_id, metadata={"ctxkit": {"command": True}}
        ),
    ]
