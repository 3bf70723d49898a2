"""Weighing blocks, messages and tool schemas: everything that reaches the wire."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ctxkit.tokens.classes import ContentClass
from ctxkit.tokens.count import weigh_text
from ctxkit.tokens.media import media_tokens
from ctxkit.tokens.weight import Weight

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentscope.message import Msg

    from ctxkit.port import Block, Piece
    from ctxkit.tokens.counter import Counter

MESSAGE_FRAME_TOKENS: Final = 4
"""Framing of a message: 3 and its role, 1 (OpenAI cookbook, "How to count tokens with tiktoken")."""
CALL_FRAME_TOKENS: Final = 8
"""Framing of a tool call: type, function, name and arguments around the content; a fair value over providers, learnt."""
RESULT_FRAME_TOKENS: Final = 4
"""Framing of a tool result, which is a message of its own on most wires."""
HINT_FRAME_TOKENS: Final = 4
"""Framing of a hint: the host's formatters send it as a user message of its own."""
REQUEST_FRAME_TOKENS: Final = 3
"""What primes the answer, once a request (same source as for messages)."""
_REDACTED_BYTES_PER_TOKEN: Final = 6
"""Encrypted thinking in base64: four bytes of text a token, a third more by base64."""


class BlockScale:
    """Weighs what a request is made of; nothing is held but the counter, texts are remembered by `count`.

    Args:
        counter: Counts a piece of text.
    """

    def __init__(self, counter: Counter) -> None:
        self.counter = counter
        self._tools: tuple[list[Any], Weight] = ([], Weight.zero())

    async def weigh_block(self, block: Block | Piece, *, model_key: str = "") -> Weight:  # noqa: PLR0911 - one a type
        """Return the weight of one block, its own framing included.

        Args:
            block: A block of any type; of an unknown type the texts are weighed that blocks usually have.
            model_key: The model, as `ModelPort.key` names it; chooses the rule for media.
        """
        kind = getattr(block, "type", None)
        content: Any = block
        match kind:
            case "text":
                return await self._weigh_pieces(content.text, model_key)
            case "thinking":
                return await self._weigh_thinking(content)
            case "hint":
                frame = Weight.of({ContentClass.FRAME: HINT_FRAME_TOKENS})
                return frame + await self._weigh_pieces(content.hint, model_key)
            case "tool_call":
                frame = await self._weigh_frame(CALL_FRAME_TOKENS, content.id, content.name)
                return frame + await self._weigh_pieces(content.input, model_key)
            case "tool_result":
                frame = await self._weigh_frame(RESULT_FRAME_TOKENS, content.id, content.name)
                return frame + await self._weigh_pieces(content.output, model_key)
            case "data":
                source = content.source
                data = source.data if source.type == "base64" else None
                return Weight.of({ContentClass.MEDIA: media_tokens(source.media_type, data, model_key=model_key)})
        return Weight.sum(
            [
                await self._weigh_pieces(getattr(content, name, None), model_key)
                for name in ("text", "thinking", "hint", "input", "output", "content")
            ]
        )

    async def weigh_blocks(self, blocks: Iterable[Block | Piece], *, model_key: str = "") -> Weight:
        """Return the weight of several blocks together."""
        return Weight.sum([await self.weigh_block(block, model_key=model_key) for block in blocks])

    async def weigh_message(self, message: Msg, *, model_key: str = "") -> Weight:
        """Return the weight of a message: its framing and its blocks."""
        frame = await self.weigh_message_frame(message)
        return frame + await self._weigh_pieces(message.content, model_key)

    async def weigh_message_frame(self, message: Msg) -> Weight:
        """Return the weight of what a message has around its blocks: role and name."""
        return await self._weigh_frame(MESSAGE_FRAME_TOKENS, message.name)

    async def weigh_tools(self, tools: Sequence[Mapping[str, Any]]) -> Weight:
        """Return the weight of the tool schemas, as JSON; unchanged ones are recognised by content."""
        seen, weight = self._tools
        if seen == tools:
            return weight
        dumps = [json.dumps(tool, ensure_ascii=False, default=_type_name, skipkeys=True) for tool in tools]
        weight = Weight.sum([await weigh_text(dump, self.counter, as_class=ContentClass.JSON) for dump in dumps])
        # A copy: schemas that are changed in place must be seen.
        self._tools = ([json.loads(dump) for dump in dumps], weight)
        return weight

    async def weigh_text(self, text: str) -> Weight:
        """Return the weight of a text, each piece of it in the class that it looks like."""
        return await weigh_text(text, self.counter)

    async def _weigh_thinking(self, block: Any) -> Weight:
        """Return the weight of thinking; Anthropic's redacted kind holds it encrypted, in an extra field."""
        if block.thinking:
            return await weigh_text(block.thinking, self.counter, as_class=ContentClass.THINKING)
        redacted = getattr(block, "redacted_thinking_data", None)
        size = len(redacted) if isinstance(redacted, str) else 0
        return Weight.of({ContentClass.THINKING: size // _REDACTED_BYTES_PER_TOKEN})

    async def _weigh_frame(self, tokens: int, *names: object) -> Weight:
        """Return framing and the names and ids in it."""
        texts = [
            await weigh_text(name, self.counter, as_class=ContentClass.FRAME) for name in names if isinstance(name, str)
        ]
        return Weight.sum([Weight.of({ContentClass.FRAME: tokens}), *texts])

    async def _weigh_pieces(self, content: object, model_key: str) -> Weight:
        """Return the weight of what is a text or a list of blocks; of anything else, none."""
        if isinstance(content, str):
            return await self.weigh_text(content)
        if isinstance(content, list | tuple):
            return await self.weigh_blocks(content, model_key=model_key)
        return Weight.zero()


def _type_name(value: object) -> str:
    """Stand in for a value that JSON cannot hold; schemas have them only by mistake."""
    return type(value).__name__
