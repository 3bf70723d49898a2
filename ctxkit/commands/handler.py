"""`CommandHandler`: answers one agent's commands."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from ctxkit.commands import answers
from ctxkit.commands.config import ConfigCommand
from ctxkit.commands.detail import detail
from ctxkit.commands.overview import overview
from ctxkit.commands.parse import COMMANDS, parse_command
from ctxkit.commands.settings import LOCKED
from ctxkit.errors import CtxkitError
from ctxkit.plan import Reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping
    from typing import Any

    from ctxkit.commands._base import CommandAgent
    from ctxkit.commands.parse import Command

logger = logging.getLogger("ctxkit")

_HELP: Final = """\
/context: how full the context is. /context detail: of what. /context clear: forget the conversation, which stays stored
/config: what was changed. /config KEY: a setting. /config KEY VALUE: change it. /config KEY reset: change it back
/compact [FOCUS]: compress now. /preview: what that would do. /undo: take the newest compression back
/pin TEXT: keep a text word for word. /explain ID: what became of a message"""


class CommandHandler:
    """Answers the commands of one agent, without asking a model what they mean.

    Args:
        agent: The agent.
        commands: The names of the commands that are answered; others are left to the agent.
        locked: Settings and sections that may be seen and not changed.
    """

    def __init__(
        self, agent: CommandAgent, *, commands: Collection[str] = COMMANDS, locked: Collection[str] = LOCKED
    ) -> None:
        self._agent = agent
        self._names = frozenset(commands)
        self._config = ConfigCommand(agent, locked=locked)
        self._answers: Mapping[str, Callable[[str], Awaitable[str]]] = {
            "context": self._context,
            "config": self._config_answer,
            "compact": self._compact,
            "preview": self._preview,
            "undo": self._undo,
            "pin": self._pin,
            "explain": self._explain,
        }

    def is_command(self, text: str) -> bool:
        """Whether a text is a command that is answered here."""
        return self._command(text) is not None

    def changes_something(self, text: str) -> bool:
        """Whether a text is a command that changes the agent, and does not only look."""
        command = self._command(text)
        return command is not None and _changes_something(command)

    async def answer(self, text: str) -> str | None:
        """Carry out a command; what goes wrong is said in the answer.

        Args:
            text: What a person typed.

        Returns:
            The answer; `None` for what is no command of these, which is for the agent.
        """
        command = self._command(text)
        if command is None:
            return None
        try:
            if self._agent.is_replying and _changes_something(command):
                return "A reply runs, and this would change what it works on: send it again when it has ended."
            return await self._answers[command.name](command.argument)
        except CtxkitError as exc:
            return str(exc)
        except Exception as exc:
            logger.exception("the command %r of agent %r failed", text, self._agent.name)
            return f"/{command.name} failed ({type(exc).__name__}: {exc}); the log has the details."

    def _command(self, text: str) -> Command | None:
        command = parse_command(text)
        return command if command is not None and command.name in self._names else None

    async def _context(self, argument: str) -> str:
        match argument.lower():
            case "":
                said = await overview(await self._agent.engine(), self._agent.settings())
                changed = len(self._agent.changes)
                return f"{said}\nChanged settings: {changed} (/config lists them)" if changed else said
            case "detail":
                return await detail(await self._agent.engine(), self._agent.settings())
            case "clear":
                return await self._clear()
            case "help":
                return _HELP
            case _:
                return f"/context takes 'detail', 'clear', 'help' or nothing, not {argument[:80]!r}."

    async def _clear(self) -> str:
        """Write to memory first, then clear: a memory that fails leaves the context as it is."""
        engine = await self._agent.engine()
        has_memory = await self._agent.remember()
        receipt = await engine.steer.clear(self._agent.settings())
        return answers.cleared(receipt, has_recall=engine.recall is not None, has_memory=has_memory)

    async def _config_answer(self, argument: str) -> str:
        # What a setting is stands in the source of its section, which is read from a file once.
        return (
            await asyncio.to_thread(self._config.show, argument) if _is_shown(argument) else self._config.set(argument)
        )

    async def _compact(self, argument: str) -> str:
        engine = await self._agent.engine()
        receipt = await engine.compress(
            self._agent.settings(), reason=Reason.MANUAL, emit=_log_event, focus=argument or None, force=True
        )
        return answers.compressed(receipt)

    async def _preview(self, argument: str) -> str:
        if argument:
            return f"/preview takes nothing, not {argument[:80]!r}."
        engine = await self._agent.engine()
        return answers.previewed(await engine.steer.preview(self._agent.settings(), draft=False))

    async def _undo(self, argument: str) -> str:
        engine = await self._agent.engine()
        return answers.undone(await engine.steer.undo(argument or None, self._agent.settings()))

    async def _pin(self, argument: str) -> str:
        engine = await self._agent.engine()
        if argument:
            return answers.pinned(await engine.steer.pin(argument, self._agent.settings()))
        pins = engine.steer.pins()
        lines = [f"  {pin.id}: {pin.tokens:,} tokens, {pin.where}: {pin.text[:80]}" for pin in pins]
        return "\n".join(["Pinned:", *lines]) if pins else "Nothing is pinned; /pin TEXT keeps a text word for word."

    async def _explain(self, argument: str) -> str:
        if not argument:
            return "/explain takes the id of a message, a part of one or a call; /context detail names some."
        engine = await self._agent.engine()
        return answers.explained(await engine.steer.explain(argument))


def _changes_something(command: Command) -> bool:
    """Whether a command changes the agent, or only looks."""
    match command.name:
        case "context":
            return command.argument.lower() == "clear"
        case "config":
            return not _is_shown(command.argument)
        case "pin":
            return bool(command.argument)
        case _:
            return command.name in {"compact", "undo"}


def _is_shown(argument: str) -> bool:
    """Whether `/config` is only to show something."""
    return len(argument.split(None, 1)) < 2  # noqa: PLR2004 - a name and a value


async def _log_event(name: str, value: Mapping[str, Any]) -> None:
    """Nobody listens to a stream of events here; what happens is logged."""
    logger.info("%s %s", name, value)
