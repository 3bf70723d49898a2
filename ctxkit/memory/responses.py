"""What a function of somebody else's answers to a prompt, as text: plain, in chunks, or in a provider's own shape."""

import asyncio
import inspect
from collections.abc import AsyncIterable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ctxkit.port import Answer

if TYPE_CHECKING:
    from agentscope.message import Msg

_DEPTH: Final = 8
"""A response is not nested deeper."""
_PATHS: Final = ("choices", "message", "delta", "content", "text", "output_text", "output")
"""Where the text may be: OpenAI's, Claude's and others' shapes, a whole answer or a chunk of one."""
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning", "tool_use", "tool_call", "function_call"})
"""Types of parts that are no text of the answer."""


async def text_of(response: object) -> str:
    """Return the text of a response.

    It may be a text, a mapping or an object in OpenAI's or Claude's shape, a generator of such pieces (a plain one is run
    in a thread, for it may wait), or an awaitable of any of these.

    Raises:
        ValueError: The response says that the call failed.
    """
    while inspect.isawaitable(response):
        response = await response
    if isinstance(response, AsyncIterable):
        return "".join([_text(piece) async for piece in response])
    if isinstance(response, Iterator):
        return "".join(await asyncio.to_thread(_drained, response))
    return _text(response)


def _drained(pieces: Iterator[object]) -> list[str]:
    return [_text(piece) for piece in pieces]


def _text(piece: object, depth: int = 0) -> str:
    if isinstance(piece, bytes):
        return piece.decode("utf-8", "replace")
    if isinstance(piece, str) or piece is None or depth > _DEPTH:
        return piece if isinstance(piece, str) else ""
    error = _field(piece, "error")
    if error and depth == 0:
        msg = f"the response is an error: {str(error)[:300]}"
        raise ValueError(msg)
    if isinstance(piece, Sequence):
        return "".join(_text(each, depth + 1) for each in piece)
    if _field(piece, "type") in _THOUGHTS:
        return ""
    for name in _PATHS:
        inner = _field(piece, name)
        if inner is not None:
            # Of several answers the first one counts.
            return _text(inner[:1] if name == "choices" and isinstance(inner, Sequence) else inner, depth + 1)
    return ""


def _field(piece: object, name: str) -> Any:
    return piece.get(name) if isinstance(piece, Mapping) else getattr(piece, name, None)


class CallableModel:
    """A function from a prompt to a response as a model; see `ctxkit.port.ModelPort`.

    Args:
        call: Gets the prompt; one that is no coroutine function is called in a thread, for it may wait.
        context_size: Tokens that its prompt may have.
    """

    def __init__(self, call: Callable[[str], Any], *, context_size: int) -> None:
        self._call = call
        self.context_size = context_size
        self.key = f"function:{getattr(call, '__qualname__', type(call).__qualname__)}"

    async def call(
        self,
        messages: "Sequence[Msg]",
        tools: Sequence[Mapping[str, Any]] = (),  # noqa: ARG002 - a function has no tools
        *,
        tool_choice: object | None = None,  # noqa: ARG002 - as above
        forbid_tools: bool = False,  # noqa: ARG002 - as above
        options: Mapping[str, Any] | None = None,  # noqa: ARG002 - as above
    ) -> Answer:
        """Call the function with the text of the messages and return the text of what it returns."""
        texts = [block.text for message in messages for block in message.content if block.type == "text"]
        prompt = "\n\n".join(texts)
        is_async = inspect.iscoroutinefunction(self._call) or inspect.isasyncgenfunction(self._call)
        response = self._call(prompt) if is_async else await asyncio.to_thread(self._call, prompt)
        return Answer(text=await text_of(response))

    async def structured(self, messages: "Sequence[Msg]", schema: Mapping[str, Any]) -> Answer:  # noqa: ARG002 - a function knows no schema
        """Call the function; it gives a text, and no fields."""
        return await self.call(messages)
