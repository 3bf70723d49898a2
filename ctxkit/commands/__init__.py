"""Commands that a person types into a chat: `/context`, `/config` and their like, answered without a model."""

from ctxkit.commands._base import Change, CommandAgent, Given
from ctxkit.commands.handler import CommandHandler
from ctxkit.commands.parse import COMMANDS, Command, parse_command
from ctxkit.commands.settings import LOCKED, checked_changes

__all__ = [
    "COMMANDS",
    "LOCKED",
    "Change",
    "Command",
    "CommandAgent",
    "CommandHandler",
    "Given",
    "checked_changes",
    "parse_command",
]
