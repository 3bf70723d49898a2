"""Builds and parses AgentScope's blocks and messages for the rooms below `host/`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agentscope.message import (
    AssistantMsg,
    Base64Source,
    DataBlock,
    HintBlock,
    Msg,
    SystemMsg,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolResultState,
    URLSource,
    UserMsg,
)
from pydantic import AnyUrl

from ctxkit.host import _compat

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctxkit.port import Block, CallState, Identified, Piece, ResultState

MARK = "ctxkit"
"""Key of the metadata of a message or a tool result under which ctxkit says what it did to it."""


class HostCodec:
    """AgentScope's blocks and messages, made and parsed; see `ctxkit.port.Codec`."""

    def text(self, text: str) -> TextBlock:
        """Return a new text block."""
        return TextBlock(text=text)

    def hint(self, text: str, *, source: str | None = None) -> HintBlock:
        """Return a new hint block."""
        return HintBlock(hint=text, source=source)

    def user_message(self, content: str | Sequence[Piece], *, name: str = "user") -> Msg:
        """Return a new user message."""
        return UserMsg(name=name, content=content if isinstance(content, str) else list(content))

    def system_message(self, text: str) -> Msg:
        """Return a new system message."""
        return SystemMsg(name="system", content=text)

    def assistant_message(self, content: Sequence[Block], *, name: str, id: str | None = None) -> Msg:  # noqa: A002 - the host's word
        """Return a new assistant message."""
        message = AssistantMsg(name=name, content=list(content))
        return message if id is None else message.model_copy(update={"id": id})

    def with_content(self, message: Msg, content: Sequence[Block], *, mark: Mapping[str, Any] | None = None) -> Msg:
        """Return a copy of a message that has other blocks."""
        changes: dict[str, Any] = {"content": list(content), "metadata": _marked(message.metadata, mark)}
        return message.model_copy(update=changes)

    def result(self, text: str, *, id: str, name: str, state: ResultState = "running") -> ToolResultBlock:  # noqa: A002 - the host's word
        """Return a new tool result with a text."""
        return ToolResultBlock(id=id, name=name, output=text, state=ToolResultState(state))

    def with_output(
        self, result: ToolResultBlock, output: Sequence[Piece] | str, *, mark: Mapping[str, Any] | None = None
    ) -> ToolResultBlock:
        """Return a copy of a tool result that has another output."""
        new = output if isinstance(output, str) else list(output)
        return result.model_copy(update={"output": new, "metadata": _marked(result.metadata, mark)})

    def with_input(self, call: ToolCallBlock, arguments: str) -> ToolCallBlock:
        """Return a copy of a tool call that has other arguments."""
        return call.model_copy(update={"input": arguments})

    def with_state(self, call: ToolCallBlock, state: CallState) -> ToolCallBlock:
        """Return a copy of a tool call that is in another state."""
        return call.model_copy(update={"state": state})

    def with_id(self, item: Identified, id: str) -> Identified:  # noqa: A002 - the host's word
        """Return a copy of a message or block that has another id."""
        return item.model_copy(update={"id": id})

    def with_text(self, block: Block, text: str) -> Block:
        """Return a copy of a text, thinking or hint block that has another text."""
        if isinstance(block, TextBlock):
            return block.model_copy(update={"text": text})
        if isinstance(block, ThinkingBlock):
            return block.model_copy(update={"thinking": text})
        if isinstance(block, HintBlock):
            return block.model_copy(update={"hint": text})
        msg = f"a block of type {block.type!r} has no text of its own: pass a text, thinking or hint block"
        raise TypeError(msg)

    def with_hint(self, hint: HintBlock, pieces: Sequence[Piece]) -> HintBlock:
        """Return a copy of a hint that has other pieces."""
        return hint.model_copy(update={"hint": list(pieces)})

    def with_url(self, block: DataBlock, url: str) -> DataBlock:
        """Return a copy of a data block that points at a URL instead of carrying its bytes."""
        source = URLSource(url=AnyUrl(url), media_type=block.source.media_type)
        return block.model_copy(update={"source": source})

    def with_data(self, block: DataBlock, data: str) -> DataBlock:
        """Return a copy of a data block that carries its bytes instead of pointing at a URL."""
        source = Base64Source(data=data, media_type=block.source.media_type)
        return block.model_copy(update={"source": source})

    def with_mark_of(self, message: Msg, other: Msg) -> Msg:
        """Return a copy of a message that has another one's mark, or none."""
        others = {name: value for name, value in message.metadata.items() if name != MARK}
        mark = {MARK: other.metadata[MARK]} if MARK in other.metadata else {}
        return message.model_copy(update={"metadata": {**others, **mark}})

    def with_usage_of(self, message: Msg, other: Msg) -> Msg:
        """Return a copy of a message that has another one's usage added to its own."""
        return message.model_copy(update={"usage": _compat.added_usage(message.usage, other.usage)})

    def dump(self, message: Msg) -> str:
        """Return a message as JSON on one line; lone surrogates are escaped, which the host's own dump refuses."""
        try:
            return message.model_dump_json()
        except ValueError:
            return json.dumps(message.model_dump(mode="python"), ensure_ascii=True, default=_plain)

    def load(self, line: str) -> Msg:
        """Return the message that `dump` wrote.

        Raises:
            ValueError: The line is no message.
        """
        return Msg.model_validate(json.loads(line))


def _marked(metadata: Mapping[str, Any], mark: Mapping[str, Any] | None) -> dict[str, Any]:
    if not mark:
        return dict(metadata)
    there = metadata.get(MARK)
    return {**metadata, MARK: {**(there if isinstance(there, dict) else {}), **mark}}


def _plain(value: object) -> object:
    """Return what JSON can hold for a value that it cannot (URLs and the like)."""
    return str(value)
