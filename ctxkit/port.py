"""All that crosses to the host: `AgentPort` reads and changes one agent, `Codec` builds and parses its blocks.

Messages and blocks are AgentScope's own; below `host/` they are read by attribute only and built through the Codec, so
that the engine runs without AgentScope in unit tests and there is no second message model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from agentscope.message import (
        DataBlock,
        HintBlock,
        Msg,
        TextBlock,
        ThinkingBlock,
        ToolCallBlock,
        ToolResultBlock,
    )

    Block = TextBlock | ThinkingBlock | HintBlock | ToolCallBlock | ToolResultBlock | DataBlock
    Piece = TextBlock | DataBlock
    """What a tool result, a hint or the summary is made of."""

    Identified = TypeVar("Identified", Msg, ToolCallBlock, ToolResultBlock)

CallState = Literal["pending", "asking", "allowed", "submitted", "finished"]
"""AgentScope's `ToolCallState`; asking and submitted calls wait for somebody outside."""

ResultState = Literal["success", "error", "interrupted", "denied", "running"]
"""AgentScope's `ToolResultState`."""


SLOT: Final = "ctxkit"
"""Key of ctxkit's state in the agent's `middle_context`; see `AgentPort.slot`."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What one model call sends: layers in the host's order (system prompt, summary, context) and tool schemas."""

    messages: Sequence[Msg]
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: object | None = None
    """The host's tool choice."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Other keywords of the call, which the host's model hands to the provider."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What the provider says a call cost; `input_tokens` counts cached tokens too, whatever the provider's habit."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Return what both calls cost."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
        )


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a model answered to a call that ctxkit made."""

    text: str = ""
    """All text of the answer, thinking apart."""
    content: Mapping[str, Any] | None = None
    """The fields, where structured output was asked for."""
    tool_calls: Sequence[str] = ()
    """Names of the tools that the model wanted to call; ctxkit never runs them."""
    usage: Usage | None = None
    interrupted: bool = False
    """The host swallowed a cancellation: the answer is not one."""


class ModelPort(Protocol):
    """One chat model, as the summary generator needs it."""

    @property
    def key(self) -> str:
        """Name that tells this model's token counts from another's, for example `"OpenAIChatModel:gpt-5"`."""
        ...

    @property
    def context_size(self) -> int:
        """Tokens of the model's context window."""
        ...

    async def call(
        self,
        messages: Sequence[Msg],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        tool_choice: object | None = None,
        forbid_tools: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Call the model and gather its whole answer, streaming or not.

        Args:
            messages: The request, system prompt first.
            tools: Tool schemas, as in the agent's own requests.
            tool_choice: The host's tool choice, passed as it is.
            forbid_tools: Send tool choice "none" instead.
            options: Other keywords of the host's model call.

        Returns:
            The answer; `interrupted` is set where the host swallowed a cancellation.
        """
        ...

    async def structured(self, messages: Sequence[Msg], schema: Mapping[str, Any]) -> Answer:
        """Ask by the host's `generate_structured_output`; `content` of the answer holds the fields."""
        ...


class Codec(Protocol):
    """Builds and parses the host's blocks and messages."""

    def text(self, text: str) -> TextBlock:
        """Return a new text block."""
        ...

    def hint(self, text: str, *, source: str | None = None) -> HintBlock:
        """Return a new hint block."""
        ...

    def user_message(self, content: str | Sequence[Piece], *, name: str = "user") -> Msg:
        """Return a new user message."""
        ...

    def system_message(self, text: str) -> Msg:
        """Return a new system message."""
        ...

    def assistant_message(self, content: Sequence[Block], *, name: str, id: str | None = None) -> Msg:  # noqa: A002 - the host's word
        """Return a new assistant message."""
        ...

    def with_content(self, message: Msg, content: Sequence[Block], *, mark: Mapping[str, Any] | None = None) -> Msg:
        """Return a copy of a message that has other blocks; id, name, usage and metadata stay.

        `mark` is laid over `metadata["ctxkit"]`.
        """
        ...

    def result(self, text: str, *, id: str, name: str, state: ResultState = "running") -> ToolResultBlock:  # noqa: A002 - the host's word
        """Return a new tool result with a text, the form in which oversized texts of any kind are stored."""
        ...

    def with_output(
        self, result: ToolResultBlock, output: Sequence[Piece] | str, *, mark: Mapping[str, Any] | None = None
    ) -> ToolResultBlock:
        """Return a copy of a tool result that has another output; `mark` goes under `metadata["ctxkit"]`."""
        ...

    def with_input(self, call: ToolCallBlock, arguments: str) -> ToolCallBlock:
        """Return a copy of a tool call that has other arguments (JSON text)."""
        ...

    def with_state(self, call: ToolCallBlock, state: CallState) -> ToolCallBlock:
        """Return a copy of a tool call that is in another state."""
        ...

    def with_id(self, item: Identified, id: str) -> Identified:  # noqa: A002 - the host's word
        """Return a copy of a message or block that has another id."""
        ...

    def with_text(self, block: Block, text: str) -> Block:
        """Return a copy of a text, thinking or hint block that has another text."""
        ...

    def with_hint(self, hint: HintBlock, pieces: Sequence[Piece]) -> HintBlock:
        """Return a copy of a hint that has other pieces."""
        ...

    def with_url(self, block: DataBlock, url: str) -> DataBlock:
        """Return a copy of a data block that points at a URL instead of carrying its bytes."""
        ...

    def with_data(self, block: DataBlock, data: str) -> DataBlock:
        """Return a copy of a data block that carries its bytes in base64 instead of pointing at a URL."""
        ...

    def with_mark_of(self, message: Msg, other: Msg) -> Msg:
        """Return a copy of a message that has another one's `metadata["ctxkit"]`, or none where the other has none."""
        ...

    def with_usage_of(self, message: Msg, other: Msg) -> Msg:
        """Return a copy of a message that has another one's usage added to its own."""
        ...

    def dump(self, message: Msg) -> str:
        """Return a message as JSON on one line; characters that cannot be encoded are replaced, never refused."""
        ...

    def load(self, line: str) -> Msg:
        """Return the message that `dump` wrote.

        Raises:
            ValueError: The line is no message.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Swap:
    """A change of one agent's context, made in one step.

    It holds for what the plan saw: the very messages and blocks, compared by identity. What came since, messages or
    blocks at the end of the last message, is kept behind `context`.
    """

    seen: Sequence[Msg]
    """The messages that the plan saw."""
    seen_contents: Sequence[Sequence[Block]]
    """The blocks of each of them."""
    context: Sequence[Msg]
    """The new context."""
    summary: Sequence[Piece] | str | None = field(default=None)
    """The new summary layer; `None` leaves it."""
    usage: Usage | None = None
    """What the summary cost, for the host's own accounting."""


@runtime_checkable
class AgentPort(Protocol):
    """One agent, as the engine needs it."""

    @property
    def name(self) -> str:
        """The agent's name."""
        ...

    @property
    def session_id(self) -> str:
        """The id under which the agent's content is stored."""
        ...

    @property
    def reply_id(self) -> str:
        """The id of the reply that runs or ran last."""
        ...

    @property
    def model(self) -> ModelPort:
        """The model that the next call will use; read it at every use, the host swaps it."""
        ...

    def model_of(self, model: object) -> ModelPort:
        """Return another of the host's chat models as a port, for example one that writes summaries only."""
        ...

    @property
    def context(self) -> Sequence[Msg]:
        """The live context; a new list object after every swap."""
        ...

    @property
    def summary(self) -> Sequence[Piece] | str:
        """The live summary layer; empty where there is none."""
        ...

    @property
    def slot(self) -> dict[str, Any]:
        """The agent's own place for ctxkit's state: small plain JSON, saved with the agent."""
        ...

    async def request(self) -> Request:
        """Return the request that the host would send now, transforms of other middlewares included."""
        ...

    async def host_count(self, pieces: Sequence[Piece]) -> int:
        """Return the tokens that the host itself counts for a tool result's output."""
        ...

    async def checkpoint(self) -> None:
        """Save the agent as it is now, where somebody saves it; called when all that a swap rests on is stored.

        Raises:
            CtxkitError: It could not be saved.
        """
        ...

    def append(self, message: Msg) -> None:
        """Put a message at the end of the context."""
        ...

    async def swap(self, swap: Swap) -> bool:
        """Change the context in one step, or return False where what the plan saw has changed meanwhile."""
        ...

    def charge(self, usage: Usage) -> None:
        """Add what a summary cost that no swap brings in to the host's own accounting."""
        ...


EmitEvent = Callable[[str, Mapping[str, Any]], Awaitable[None]]
"""Takes an event's name and its plain-JSON value; awaited, never raising."""
