"""A chat model that says what a script tells it, through the host's real class and with true token counts."""

import asyncio
import inspect
import itertools
import json
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from agentscope.credential import CredentialBase
from agentscope.formatter import FormatterBase, OpenAIChatFormatter
from agentscope.message import DataBlock, Msg, TextBlock, ThinkingBlock, ToolCallBlock
from agentscope.model import ChatModelBase, ChatResponse, ChatUsage
from agentscope.tool import ToolChoice
from pydantic import BaseModel

from ctxkit.memory.prompt import ANSWER as MEMORY_ANSWER
from ctxkit.schema import summary_json_schema
from ctxkit.summary.prompt import ANSWER, REPAIR
from ctxkit.testing.refusals import Provider, overflow_error
from ctxkit.testing.tokenizers import (
    PRIMING_TOKENS,
    Count,
    RequestCounter,
    TokenizerName,
    byte_quarters,
)

AnswerBlock = TextBlock | ThinkingBlock | ToolCallBlock | DataBlock


@dataclass(frozen=True, kw_only=True)
class BreakOff:
    """An answer that begins and then fails: a stream yields `content` and raises `error`; a plain call raises it."""

    error: BaseException
    content: str | Sequence[AnswerBlock] = "Let me think"


Said = str | AnswerBlock | Sequence[AnswerBlock] | BaseException | BreakOff | ChatResponse
"""What one call may answer; an exception is raised."""
Step = Said | Callable[[Sequence[Msg]], "Said | Awaitable[Said]"]
"""One line of a script: an answer, or a function of the request's messages that gives one."""
Summary = str | Mapping[str, Any] | BaseException
"""What one summary request is answered with: the fields, raw text in their place, or an exception that is raised."""
Summaries = Summary | Callable[[Sequence[Msg]], "Summary | Awaitable[Summary]"]

STRUCTURED_TOOL: Final = "generate_structured_output"
"""The tool by which the host asks for structured output."""
_OWN_MARKS: Final = tuple(text.partition("{")[0] for text in (ANSWER, REPAIR))
"""How ctxkit's own summary requests are known: by the beginning of their instructions."""
_MEMORY_MARK: Final = MEMORY_ANSWER
"""How requests to write to memory are known."""
_SCHEMA_HEAD: Final = ANSWER.partition("{schema}")[0].rpartition("}")[2]
"""What stands before the schema in them."""
_CHUNK_CHARS: Final = 48
"""A streamed piece; real providers send 1 to about 50 characters."""
_EMPTY: Final[Mapping[str, Any]] = {"array": [], "object": {}, "integer": 0, "number": 0, "boolean": False}
"""JSON type to a value of it."""
_ids: Final = itertools.count(1)


def call(name: str, /, **arguments: Any) -> ToolCallBlock:
    """Return a tool call with an id that no other call of this process has."""
    return ToolCallBlock(id=_new_id(), name=name, input=json.dumps(arguments, ensure_ascii=False))


@dataclass(frozen=True, kw_only=True)
class ScriptedRequest:
    """One request as the model got it."""

    kind: Literal["chat", "summary", "memory"]
    messages: Sequence[Msg]
    """Deep copies; empty where the model was made with `keep_messages=False`."""
    message_count: int
    tools: Sequence[Mapping[str, Any]]
    tool_choice: str | None
    """The mode of the host's tool choice."""
    options: Mapping[str, Any]
    """Other keywords of the call."""
    input_tokens: int
    """True tokens of the formatted request."""
    reused_tokens: int
    """Tokens at its beginning that the request before began with too: what a prompt cache would serve."""
    refused: bool
    """It was larger than the limit and got the provider's overflow error."""


class ScriptedCredential(CredentialBase):
    """The credential of a `ScriptedModel`; it opens nothing."""

    @classmethod
    def get_chat_model_class(cls) -> type[ChatModelBase]:
        """Return the model's class, as the host asks for it."""
        return ScriptedModel


class ScriptedModel(ChatModelBase):
    """A model of the host that overrides only `_call_api`, so that the host's retries, streams and structured output run.

    Requests for a summary do not use up the script: the host's structured output, and ctxkit's own summary requests
    (recognised by their instruction in the last message), are answered from `summaries`; those to write to memory from
    `memories`.

    Args:
        script: The answers, one a call; an iterable that never ends is fine. After its end the model says `after`.
        context_size: Tokens of the window, as the host knows it.
        stream: Whether answers come in pieces, the usage last, as real providers stream them.
        summaries: The answer to summary requests: fields, raw text, an exception, or a function of the messages; the
            default is a small deterministic summary that quotes nothing.
        memories: The answer to requests to write to memory: text, an exception, or a function of the messages; the default
            is a small deterministic entry.
        enforce: A vocabulary; requests that truly are larger than the limit are refused with the provider's own
            error. Without it nothing is refused and usage counts UTF-8 bytes / 4.
        limit: Tokens that are enforced; `context_size` where unset.
        provider: Whose overflow error is raised.
        cached: Whether usage reports the part of the request that a prompt cache would serve (contained in
            `input_tokens`, as OpenAI counts).
        after: What is said when the script has ended.
        summary_marks: Texts that mark a summary request beside ctxkit's own.
        keep_messages: Whether `requests` holds copies of the messages; long benchmarks turn it off.
        model: The model's name.
        max_retries: As the host's.
        formatter: The host's formatter; OpenAI's where unset.
    """

    class Parameters(BaseModel):
        """A scripted model has no parameters."""

    type: Literal["ctxkit_scripted"] = "ctxkit_scripted"

    def __init__(
        self,
        script: Iterable[Step] = (),
        *,
        context_size: int = 32768,
        stream: bool = False,
        summaries: Summaries | None = None,
        memories: Summaries | None = None,
        enforce: TokenizerName | Count | None = None,
        limit: int | None = None,
        provider: Provider = "openai",
        cached: bool = True,
        after: Step = "done",
        summary_marks: Sequence[str] = (),
        keep_messages: bool = True,
        model: str = "scripted",
        max_retries: int = 0,
        formatter: FormatterBase | None = None,
    ) -> None:
        super().__init__(
            credential=ScriptedCredential(),
            model=model,
            parameters=self.Parameters(),
            stream=stream,
            max_retries=max_retries,
            retry_delay=0.0,
            context_size=context_size,
        )
        self.formatter = formatter or OpenAIChatFormatter()
        self.requests: list[ScriptedRequest] = []
        self._script: Iterator[Step] = iter(script)
        self._summaries = summaries
        self._memories = memories
        self._enforced = enforce is not None
        self._counter = RequestCounter(byte_quarters if enforce is None else enforce)
        self._limit = limit
        self._provider = provider
        self._cached = cached
        self._after = after
        self._summary_marks = (*_OWN_MARKS, *summary_marks)
        self._keep_messages = keep_messages
        self._last_parts: list[str] = []

    @property
    def limit(self) -> int:
        """Tokens that a request may have where `enforce` is set."""
        return self.context_size if self._limit is None else self._limit

    @property
    def chats(self) -> list[ScriptedRequest]:
        """The requests that used up the script, refused ones included."""
        return [each for each in self.requests if each.kind == "chat"]

    @property
    def summary_requests(self) -> list[ScriptedRequest]:
        """The requests for a summary, refused ones included."""
        return [each for each in self.requests if each.kind == "summary"]

    @property
    def memory_requests(self) -> list[ScriptedRequest]:
        """The requests to write to memory, refused ones included."""
        return [each for each in self.requests if each.kind == "memory"]

    async def _call_api(
        self,
        model_name: str,
        messages: list[Msg],
        tools: list[dict[str, Any]] | None = None,
        tool_choice: ToolChoice | None = None,
        **kwargs: Any,
    ) -> ChatResponse | AsyncGenerator[ChatResponse, None]:
        started = time.monotonic()
        request = await self._record(messages, tools or [], tool_choice, kwargs)
        if request.refused:
            # In a thread: the first one imports the SDK.
            raise await asyncio.to_thread(
                overflow_error, self._provider, limit_tokens=self.limit, needed_tokens=request.input_tokens
            )
        said = await self._answer(request.kind, messages, tools or [])
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, BreakOff) and not self.stream:
            raise said.error
        if isinstance(said, ChatResponse):
            return _whole(said) if self.stream else said
        blocks = _blocks(said.content if isinstance(said, BreakOff) else said)
        usage = await self._usage(request, blocks, started)
        if self.stream:
            return _stream(blocks, usage, error=said.error if isinstance(said, BreakOff) else None)
        return ChatResponse(content=list(blocks), is_last=True, usage=usage)

    async def _record(
        self, messages: list[Msg], tools: list[dict[str, Any]], tool_choice: ToolChoice | None, options: dict[str, Any]
    ) -> ScriptedRequest:
        formatted = await self.formatter.format(messages)
        tokens = await self._counter.parts(formatted, tools)
        parts = [json.dumps(part, ensure_ascii=False, default=str) for part in (*tools, *formatted)]
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(parts, self._last_parts)))  # noqa: B905 - one is longer
        input_tokens = sum(tokens) + PRIMING_TOKENS
        request = ScriptedRequest(
            kind=self._kind(messages, tools),
            messages=[message.model_copy(deep=True) for message in messages] if self._keep_messages else (),
            message_count=len(messages),
            tools=list(tools),
            tool_choice=getattr(tool_choice, "mode", None),
            options=options,
            input_tokens=input_tokens,
            reused_tokens=sum(tokens[:same]),
            refused=self._enforced and input_tokens > self.limit,
        )
        self.requests.append(request)
        if not request.refused:
            self._last_parts = parts
        return request

    def _kind(
        self, messages: Sequence[Msg], tools: Sequence[Mapping[str, Any]]
    ) -> Literal["chat", "summary", "memory"]:
        if any(tool["function"]["name"] == STRUCTURED_TOOL for tool in tools):
            return "summary"
        last = _text_of(messages[-1]) if messages else ""
        if _MEMORY_MARK in last:
            return "memory"
        return "summary" if any(mark in last for mark in self._summary_marks) else "chat"

    async def _answer(
        self, kind: Literal["chat", "summary", "memory"], messages: Sequence[Msg], tools: Sequence[Mapping[str, Any]]
    ) -> Said:
        if kind == "summary":
            return await self._summarise(messages, tools)
        return await (self._say(messages) if kind == "chat" else self._remember(messages))

    async def _say(self, messages: Sequence[Msg]) -> Said:
        step = next(self._script, self._after)
        said = step(messages) if callable(step) else step
        return await said if inspect.isawaitable(said) else said

    async def _summarise(self, messages: Sequence[Msg], tools: Sequence[Mapping[str, Any]]) -> Said:
        summary = self._summaries(messages) if callable(self._summaries) else self._summaries
        if inspect.isawaitable(summary):
            summary = await summary
        if isinstance(summary, BaseException):
            return summary
        tool = next((each["function"] for each in tools if each["function"]["name"] == STRUCTURED_TOOL), None)
        if summary is None:
            schema = tool["parameters"] if tool else _schema_in(_text_of(messages[-1]))
            summary = plain_summary(schema, number=len(self.summary_requests))
        text = summary if isinstance(summary, str) else json.dumps(summary, ensure_ascii=False)
        return ToolCallBlock(id=_new_id(), name=STRUCTURED_TOOL, input=text) if tool else text

    async def _remember(self, messages: Sequence[Msg]) -> Said:
        number = len(self.memory_requests)
        entry = f"[DAILY]\n- Entry {number} of the diary.\n[MEMORY]\nWhere things stood at entry {number}."
        said = self._memories(messages) if callable(self._memories) else self._memories
        if inspect.isawaitable(said):
            said = await said
        if isinstance(said, str | BaseException):
            return said
        return entry if said is None else json.dumps(said, ensure_ascii=False)

    async def _usage(self, request: ScriptedRequest, blocks: Sequence[AnswerBlock], started: float) -> ChatUsage:
        texts = [text for block in blocks for text in _texts(block)]
        return ChatUsage(
            input_tokens=request.input_tokens,
            output_tokens=sum([await self._counter.text(text) for text in texts]),
            time=time.monotonic() - started,
            cache_input_tokens=request.reused_tokens if self._cached else 0,
        )


def plain_summary(schema: Mapping[str, Any] | None = None, *, number: int = 1) -> dict[str, Any]:
    """Return a small deterministic summary that quotes nothing of what it summarises.

    Args:
        schema: JSON schema of the summary, an object; AgentScope's five fields where unset.
        number: Which summary of the run it is, so that two differ.
    """
    fields = (schema or summary_json_schema()).get("properties", {})
    return {
        name: f"{name.replace('_', ' ').capitalize()} as of summary {number}."
        if field.get("type", "string") == "string"
        else _EMPTY.get(field["type"])
        for name, field in fields.items()
    }


def _schema_in(text: str) -> Mapping[str, Any] | None:
    """Return the JSON schema that a request of ctxkit's own asks for, or None where it names none."""
    _, found, rest = text.partition(_SCHEMA_HEAD)
    try:
        schema, _ = json.JSONDecoder().raw_decode(rest)
    except ValueError:
        return None
    return schema if found and isinstance(schema, dict) else None


def _text_of(message: Msg) -> str:
    return "".join(block.text for block in message.get_content_blocks() if block.type == "text")


def _new_id() -> str:
    return f"call_{next(_ids):06d}"


def _blocks(said: str | AnswerBlock | Sequence[AnswerBlock]) -> Sequence[AnswerBlock]:
    if isinstance(said, str):
        return [TextBlock(text=said)]
    return [said] if isinstance(said, AnswerBlock) else said


def _texts(block: AnswerBlock) -> tuple[str, ...]:
    if isinstance(block, ToolCallBlock):
        return (block.name, block.input)
    if isinstance(block, ThinkingBlock):
        return (block.thinking,)
    return (block.text,) if isinstance(block, TextBlock) else ()


async def _whole(response: ChatResponse) -> AsyncGenerator[ChatResponse, None]:
    """Yield a response that a script gave ready-made."""
    yield response


async def _stream(
    blocks: Sequence[AnswerBlock], usage: ChatUsage, *, error: BaseException | None
) -> AsyncGenerator[ChatResponse, None]:
    """Yield an answer as deltas, the usage in a last one without content, as OpenAI streams do."""
    answer = uuid.uuid4().hex
    for piece in _deltas(blocks):
        yield ChatResponse(content=[piece], is_last=False, id=answer)
    if error is not None:
        raise error
    yield ChatResponse(content=[], is_last=False, id=answer, usage=usage)


def _deltas(blocks: Sequence[AnswerBlock]) -> Iterator[AnswerBlock]:
    for block in blocks:
        field = {"text": "text", "thinking": "thinking", "tool_call": "input"}.get(block.type)
        if field is None:
            yield block
            continue
        text = getattr(block, field)
        for start in range(0, max(len(text), 1), _CHUNK_CHARS):
            yield block.model_copy(update={field: text[start : start + _CHUNK_CHARS]})
