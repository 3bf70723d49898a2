"""Where a request has the summary layer: in a message of its own, or in the first user message of what stayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentscope.message import Msg

    from ctxkit.port import Codec


def in_first_user_message(messages: Sequence[Msg], codec: Codec) -> Sequence[Msg]:
    """Return a request whose summary layer stands at the beginning of the first user message behind it.

    The agent's context and its summary stay as they are, so that what is said of either holds wherever the model reads it.

    Args:
        messages: A request that has a summary layer: system prompt, summary, context.
        codec: Makes the copy.

    Returns:
        The request as it was, where no user message follows the layer.
    """
    at = next((index for index, message in enumerate(messages) if message.role != "system"), len(messages))
    first = next((index for index in range(at + 1, len(messages)) if messages[index].role == "user"), None)
    if first is None or messages[at].role != "user":
        return messages
    merged = codec.with_content(messages[first], [*messages[at].content, *messages[first].content])
    return [*messages[:at], *messages[at + 1 : first], merged, *messages[first + 1 :]]
