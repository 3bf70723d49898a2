"""Plays a recorded run through a real agent: the model says what was recorded, the tools return what was recorded.

Answers and summaries take their time by the event loop's clock, so it is to be played on one that jumps.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from typing import TYPE_CHECKING, Any

from agentscope.event import ToolResultEndEvent
from agentscope.message import Msg, TextBlock, ToolCallBlock, UserMsg
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.tool import ToolBase, ToolChunk, Toolkit

from benchmarks._recordings import text_tokens
from benchmarks._virtual import STEP_S, SUMMARY_S
from ctxkit.testing import RequestCounter, ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from agentscope.agent import Agent

    from benchmarks._recordings import Message, Recording

    Watch = Callable[[int, Sequence[Msg]], Awaitable[None]]
    """Told of each model call: index of the recorded message that answers it, and the request's messages."""

_WORD_LIMIT = re.compile(r"at most (\d+) words")
_TOKENS_PER_WORD = 1 / 0.6
_ERROR = re.compile(r"error|exception|fail|traceback", re.IGNORECASE)
_UNENFORCED_TOKENS = 10**9


class Replay:
    """One recorded run, for one agent.

    Args:
        recording: The run.
        watch: Told of each model call.
    """

    def __init__(self, recording: Recording, watch: Watch) -> None:
        self._messages = recording.messages
        self._watch = watch
        self._results: deque[str] = deque()
        names = {call["function"]["name"] for message in self._messages for call in message.get("tool_calls") or []}
        self.tools: list[ToolBase] = [_RecordedTool(name, self._results) for name in sorted(names)]
        self.model = _ExactModel(
            (self._step(index) for index in self._spoken()),
            context_size=recording.window,
            summaries=_summary,
            enforce="cl100k",
            limit=_UNENFORCED_TOKENS,  # what is over the window is counted, and the run goes on
            keep_messages=False,
        )

    @property
    def system_prompt(self) -> str:
        """The recorded system prompt."""
        return "\n".join(message["content"] for message in self._messages if message["role"] == "system")

    async def play(self, agent: Agent) -> None:
        """Let the agent live through the run: each recorded user message is an input, and ends the reply before it.

        The window of a recording is for its messages. What the host adds is added to it: the tools' schemas, and what
        the workspace says of itself in the system prompt. What ctxkit adds, its two tools, is not.
        """
        schemas = await Toolkit(tools=self.tools).get_tool_schemas()
        self.model.context_size += sum([await RequestCounter("cl100k").tool(schema) for schema in schemas])
        self.model.context_size += text_tokens(await agent._get_system_prompt()) - text_tokens(self.system_prompt)
        index = 0
        while index < len(self._messages):
            said: list[Msg] = []
            while index < len(self._messages) and self._messages[index]["role"] in {"user", "system"}:
                if self._messages[index]["role"] == "user":
                    said.append(UserMsg(name="user", content=self._messages[index]["content"] or " "))
                index += 1
            if index == len(self._messages):
                await agent.observe(said)
            else:
                stop = self._reply_end(index)
                results = sum(len(m.get("tool_calls") or []) for m in self._messages[index:stop])
                await _reply(agent, said, results=results, is_open=bool(self._calls_before(stop)))
                index = stop

    def _reply_end(self, index: int) -> int:
        """Return the index behind the reply that begins here: it ends by a text alone, or where a user breaks in."""
        while index < len(self._messages):
            message = self._messages[index]
            if message["role"] == "user":
                return index
            index += 1
            if message["role"] == "assistant" and not message.get("tool_calls"):
                return index
        return index

    def _calls_before(self, stop: int) -> list[Any]:
        """Return the calls of the last assistant's message before an index."""
        return next(
            (m.get("tool_calls") or [] for m in reversed(self._messages[:stop]) if m["role"] == "assistant"), []
        )

    def _spoken(self) -> Iterator[int]:
        return (index for index, message in enumerate(self._messages) if message["role"] == "assistant")

    def _step(self, index: int) -> Callable[[Sequence[Msg]], Awaitable[list[TextBlock | ToolCallBlock]]]:
        async def say(messages: Sequence[Msg]) -> list[TextBlock | ToolCallBlock]:
            await asyncio.sleep(STEP_S)
            await self._watch(index, messages)
            message = self._messages[index]
            calls = message.get("tool_calls") or []
            self._results.extend(self._results_of(index, calls))
            text = message.get("content") or ("" if calls else " ")
            blocks: list[TextBlock | ToolCallBlock] = [TextBlock(text=text)] if text else []
            for number, call in enumerate(calls):
                function = call["function"]
                blocks.append(
                    ToolCallBlock(id=f"call_{index}_{number}", name=function["name"], input=function["arguments"])
                )
            return blocks

        return say

    def _results_of(self, index: int, calls: Sequence[dict[str, Any]]) -> Iterator[str]:
        """Yield the recorded results of a message's calls, in the order of the calls."""
        found: dict[str, str] = {}
        for message in self._messages[index + 1 :]:
            if message["role"] != "tool":
                break
            found.setdefault(message["tool_call_id"], message["content"] or "")
        return (found.get(call["id"], "") for call in calls)


async def _reply(agent: Agent, said: list[Msg], *, results: int, is_open: bool) -> None:
    """Run one reply; one that a user breaks into is left when its last result is in."""
    stream = agent.reply_stream(said or None)
    try:
        async for event in stream:
            if isinstance(event, ToolResultEndEvent):
                results -= 1
                if is_open and results == 0:
                    return
    finally:
        await stream.aclose()


class _RecordedTool(ToolBase):
    """A tool that returns the next recorded result."""

    is_concurrency_safe = False
    is_read_only = True

    def __init__(self, name: str, results: deque[str]) -> None:
        super().__init__()
        # The smallest schema there is: recordings do not have the tools' own.
        self.name = self.description = name
        self.input_schema = {"type": "object", "properties": {}}
        self._results = results

    async def check_permissions(self, *_: Any, **__: Any) -> PermissionDecision:
        """Allow."""
        return PermissionDecision(behavior=PermissionBehavior.ALLOW, message="It is a recording.")

    async def call(self, **_: Any) -> ToolChunk:
        """Return the next recorded result."""
        return ToolChunk(content=[TextBlock(text=self._results.popleft())])


class _ExactModel(ScriptedModel):
    """A scripted model that counts truly for whoever asks, so that both sides differ by what they do alone."""

    async def count_tokens(self, messages: list[Msg], tools: list[dict[str, Any]] | None) -> int:
        """Return the true tokens of a request."""
        return sum(await self._counter.parts(await self.formatter.format(messages), tools or []))


async def _summary(messages: Sequence[Msg]) -> dict[str, str]:
    """Return the summary that a request asks for, after the time that one takes."""
    await asyncio.sleep(SUMMARY_S)
    return _stub_summary(messages)


def _stub_summary(messages: Sequence[Msg]) -> dict[str, str]:
    """Return what an extractive stand-in for a model writes: about 600 to 900 tokens, or as few as it is told.

    Args:
        messages: The summary request.
    """
    asked, said, calls, errors, before = [], [], [], [], ""
    for message in messages[:-1]:
        for block in message.content:
            if block.type == "text" and message.role == "user":
                if "<system-info>" in block.text:
                    before = block.text
                elif not block.text.startswith(("<system-", "# ")):
                    asked.append(block.text)
            elif block.type == "text" and message.role == "assistant":
                said.append(block.text)
            elif block.type == "tool_call":
                calls.append(f"{block.name}({block.input[:120]})")
            elif block.type == "tool_result":
                errors += [
                    line.strip()[:160] for line in _pieces_text(block.output).splitlines() if _ERROR.search(line)
                ][-5:]
    fields = {
        "task_overview": " / ".join([*(text[:400] for text in asked[:1]), *(text[:300] for text in asked[-1:])]),
        "current_state": "; ".join(calls[-6:]),
        "important_discoveries": "\n".join(errors[-5:]),
        "next_steps": said[-1][:400] if said else "",
        "context_to_preserve": before[:1600],
    }
    told = _WORD_LIMIT.search("".join(block.text for block in messages[-1].content if block.type == "text"))
    return fields if told is None else _within(fields, int(int(told[1]) * _TOKENS_PER_WORD))


def _within(fields: dict[str, str], limit_tokens: int) -> dict[str, str]:
    """Return the fields cut alike until all together are as short as was asked for."""
    chars = max(map(len, fields.values()))
    while sum(map(text_tokens, fields.values())) > 0.9 * limit_tokens and chars > 10:
        chars = chars * 3 // 4
        fields = {name: text[:chars] for name, text in fields.items()}
    return fields


def _pieces_text(pieces: str | list[Any]) -> str:
    """Return the text of a result or a hint."""
    return pieces if isinstance(pieces, str) else "\n".join(piece.text for piece in pieces if piece.type == "text")


def request_texts(messages: Sequence[Msg]) -> Iterator[str]:
    """Yield all texts of a request, as the model sees them."""
    for message in messages:
        for block in message.content:
            if block.type == "text":
                yield block.text
            elif block.type == "tool_call":
                yield f"{block.name} {block.input}"
            elif block.type == "tool_result":
                yield _pieces_text(block.output)
            elif block.type == "hint":
                yield _pieces_text(block.hint)


def broken_pairs(messages: Sequence[Msg]) -> int:
    """Return how many calls of a request have no result behind them, and results no call before them."""
    waiting: set[str] = set()
    broken = 0
    for message in messages:
        for block in message.content:
            if block.type == "tool_call":
                waiting.add(block.id)
            elif block.type == "tool_result":
                broken += block.id not in waiting
                waiting.discard(block.id)
    return broken + len(waiting)


def said_by_environment(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the recorded texts that must stay readable, in the request or in the store."""
    return (text for message in messages if len(text := message.get("content") or "") >= 40)
