"""Redacts the host's messages and tool results: copies where there is something, the very same objects where not."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ctxkit.offload.redact.text import Redactor, redact_text
from ctxkit.offload.redact.walk import redact_body
from ctxkit.port import Codec

if TYPE_CHECKING:
    from agentscope.message import Msg, ToolResultBlock

    from ctxkit.port import Piece


async def redact_messages(messages: "Sequence[Msg]", redactor: Redactor | None, codec: Codec) -> "list[Msg]":
    """Return messages without secrets.

    Args:
        messages: They are not changed.
        redactor: Redacts; `None` for nothing.
        codec: Writes and reads the host's messages.

    Raises:
        ConfigError: The redactor failed.
    """
    if redactor is None:
        return list(messages)
    clean = []
    for message in messages:
        clean.append(await _redact_message(message, redactor, codec))
        await asyncio.sleep(0)
    return clean


async def _redact_message(message: "Msg", redactor: Redactor, codec: Codec) -> "Msg":
    body = codec.dump(message)
    new = await redact_body(body, redactor)
    return message if new is body else codec.load(new)


async def redact_result(result: "ToolResultBlock", redactor: Redactor, codec: Codec) -> "ToolResultBlock":
    """Return a tool result without secrets, of any size.

    Args:
        result: It is not changed.
        redactor: Redacts.
        codec: Writes, reads and copies the host's blocks.

    Raises:
        ConfigError: The redactor failed.
    """
    # What surrounds the output is small: it goes the way of messages, the output in pieces.
    around = codec.assistant_message([codec.with_output(result, "")], name="tool")
    clean = await _redact_message(around, redactor, codec)
    output = result.output
    if isinstance(output, str):
        new: str | list[Piece] = await redact_text(output, redactor)
        is_same = new is output
    else:
        new = [await _redact_piece(piece, redactor, codec) for piece in output]
        is_same = all(one is other for one, other in zip(new, output, strict=True))
    if clean is around and is_same:
        return result
    return codec.with_output(clean.content[0] if clean is not around else result, new)  # type: ignore[arg-type]  # the block that went in


async def _redact_piece(piece: "Piece", redactor: Redactor, codec: Codec) -> "Piece":
    if piece.type != "text":
        return piece
    text = await redact_text(piece.text, redactor)
    return piece if text is piece.text else codec.with_text(piece, text)  # type: ignore[return-value]  # a text stays one
