"""What users pinned: messages that stay word for word, in their place or as the first block of the summary layer."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from ctxkit.engine.layer import layer_text
from ctxkit.errors import ConfigError
from ctxkit.offload.render import render_record
from ctxkit.view import View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentscope.message import Msg

    from ctxkit.port import AgentPort, Codec
    from ctxkit.strategies import Situation

TITLE: Final = "# Pinned by the user (verbatim)"
"""Begins the pins in the summary layer."""

_SLOT: Final = "pins"
_MOST_BYTES: Final = 12_000
"""All pins together have no more, for an agent's state is saved every turn."""


@dataclass(frozen=True, kw_only=True)
class Pin:
    """Something that stays word for word until it is unpinned."""

    id: str
    """Id of the message."""
    text: str
    """What stands in it, in words."""
    tokens: int
    """Tokens that it takes."""
    where: Literal["context", "summary", "waiting"] = "context"
    """Whether it stands in its place, in the summary layer, or in the store of the agent's state until the next edit."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)


class Pins:
    """The pins of one agent, kept in its own state: they survive restarts, compressions and undoing.

    Args:
        port: The agent.
        codec: Writes the host's messages.
    """

    def __init__(self, port: AgentPort, codec: Codec) -> None:
        self._port = port
        self._codec = codec

    def all(self) -> tuple[Pin, ...]:
        """Return the pins, the oldest first."""
        return tuple(
            Pin(id=one["id"], text=one["text"], tokens=one["tokens"], where=self._where(one)) for one in self._saved()
        )

    def ids(self) -> frozenset[str]:
        """Return the ids of the pins."""
        return frozenset(one["id"] for one in self._saved())

    def in_place(self, situation: Situation, budget_tokens: float) -> frozenset[int]:
        """Return the indices of the pinned messages that stay where they are, and of those with their calls or results.

        Args:
            situation: The context and what it weighs.
            budget_tokens: Tokens that pins may take; those over it, the oldest first, may leave, and stand in the
                summary layer then.
        """
        view = situation.view
        wanted = self.ids()
        kept: frozenset[int] = frozenset()
        for index in range(len(view) - 1, -1, -1):
            if view.messages[index].id in wanted:
                more = view.with_partners({*kept, index})
                if sum(sum(situation.tokens[one]) for one in more) <= budget_tokens:
                    kept = more
        return kept

    def layer_text(self, leaves: Sequence[Msg], keeps: Sequence[Msg]) -> str:
        """Return how those pins stand in the next summary layer that are not whole in the context; mostly nothing.

        Args:
            leaves: The messages that leave, whole or in part.
            keeps: What stays.
        """
        whole = {message.id for message in keeps} - {message.id for message in leaves}
        shown = layer_text(self._port.summary)
        texts = [one["text"] for one in self._saved() if one["id"] not in whole or one["text"] in shown]
        return "\n\n".join([TITLE, *texts]) if texts else ""

    def settle(self, *, is_reply_over: bool = True) -> None:
        """Let texts that were pinned stand at the end of the context, where they change no byte of a prompt cache.

        Between a call and its result they wait: for the next turn, or for the summary layer.

        Args:
            is_reply_over: False leaves a context alone whose last message a reply may go on with.
        """
        waiting = [one for one in self._saved() if one.get("is_text") and self._where(one) == "waiting"]
        if not waiting:
            return
        view = View(self._port.context, agent_name=self._port.name, reply_id=self._port.reply_id)
        if view.unfinished or (view.is_running_last and not is_reply_over):
            return
        for one in waiting:
            self._port.append(self._codec.with_id(self._codec.user_message(one["text"]), one["id"]))

    async def add(self, message: Msg, *, tokens: int, budget_tokens: int, is_text: bool = False) -> Pin:
        """Pin a message.

        Args:
            message: It need not stand in the context.
            tokens: Tokens that it takes, those of the messages with its calls or results included.
            budget_tokens: Tokens that all pins may take together.
            is_text: It was made of a text, to be put into the context by `settle`.

        Raises:
            ConfigError: The pins would take more than their budget.
        """
        saved = [one for one in self._saved() if one["id"] != message.id]
        rendered = await asyncio.to_thread(render_record, self._codec.dump(message).encode("utf-8", "replace"))
        text = _said(message) or rendered.text.strip()
        taken = sum(one["tokens"] for one in saved)
        size = len(text.encode("utf-8", "replace")) + sum(len(one["text"].encode("utf-8", "replace")) for one in saved)
        if taken + tokens > budget_tokens or size > _MOST_BYTES:
            msg = (
                f"The pin of message {message.id!r} has {tokens} tokens, the {len(saved)} others {taken}: together at most "
                f"{budget_tokens} tokens and {_MOST_BYTES} bytes may be pinned. Pin less, unpin something, or raise "
                "SummaryConfig.pins_share_ratio."
            )
            raise ConfigError(msg)
        self._port.slot[_SLOT] = [*saved, {"id": message.id, "text": text, "tokens": tokens, "is_text": is_text}]
        return next(pin for pin in self.all() if pin.id == message.id)

    def remove(self, pin_id: str) -> bool:
        """Unpin a message; return whether it was pinned. In a summary layer it stands until the next edit."""
        saved = self._saved()
        left = [one for one in saved if one["id"] != pin_id]
        self._port.slot[_SLOT] = left
        if not left:
            del self._port.slot[_SLOT]
        return len(left) < len(saved)

    def _where(self, one: Mapping[str, Any]) -> Literal["context", "summary", "waiting"]:
        if any(message.id == one["id"] for message in self._port.context):
            return "context"
        return "summary" if one["text"] in layer_text(self._port.summary) else "waiting"

    def _saved(self) -> list[dict[str, Any]]:
        saved = self._port.slot.get(_SLOT)
        found = saved if isinstance(saved, list) else []
        return [one for one in found if isinstance(one, dict) and {"id", "text", "tokens"} <= one.keys()]


def _said(message: Msg) -> str:
    """Return what stands in a message of text alone; nothing for others."""
    if any(block.type != "text" for block in message.content):
        return ""
    return "\n".join(block.text for block in message.content if block.type == "text")
