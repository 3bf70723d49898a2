"""Plays a made run through a real agent, and keeps what each call of its model would be billed."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentscope.message import TextBlock, UserMsg
from agentscope.middleware import MiddlewareBase
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.tool import ToolBase, ToolChunk

import ctxkit
from benchmarks._agents import Side, make_agent
from benchmarks._bill import Call, PrefixCache, total
from benchmarks._replay import request_texts
from benchmarks._trajectory import USER_TOKENS, Trajectory, words
from benchmarks._virtual import STEP_S, SUMMARY_S
from ctxkit.testing import ScriptedModel, call
from ctxkit.testing.scripted import ScriptedRequest
from ctxkit.testing.tokenizers import PRIMING_TOKENS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from agentscope.agent import Agent
    from agentscope.message import Msg, ToolCallBlock
    from agentscope.tool import ToolChoice

    from ctxkit import Price, Receipt
    from ctxkit.testing.scripted import AnswerBlock

LOOK, LOOK_AGAIN = "look", "look_again"
SYSTEM_TOKENS, TOOLS, TOOL_TOKENS = 7000, 20, 130
SUMMARY_TOKENS = 1500
SUMMARY_FIELDS = ("task_overview", "current_state", "important_discoveries", "next_steps", "context_to_preserve")
MASKED = "[The result of this call is left out of the context; call the tool again to see it.]"
KEEP_RESULTS = 10
"""So many of the newest results are not masked (JetBrains' setting, arXiv 2508.21433)."""

Lookup = Literal["search_context", "look_again"]
"""How an agent gets back what it needs: by ctxkit's tool, or by another look at the source."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way of managing the context.

    Args:
        name: As it stands in tables.
        side: Whose agent it is.
        config: Fields of the side's `ContextConfig`.
        masks: Whether old results are masked at every step.
    """

    name: str
    side: Side
    config: Mapping[str, Any] = field(default_factory=dict)
    masks: bool = False


@dataclass(frozen=True, kw_only=True)
class Played:
    """What came of one run."""

    calls: tuple[Call, ...]
    receipts: tuple[Receipt, ...]
    recalls: int
    """How often something had to be looked up that had left the context."""
    missed: int
    """How often it was not found."""
    spans: tuple[tuple[float, float], ...]
    """When each chat request came, and when it was answered, in seconds of the loop's clock."""
    fixed_tokens: int
    """System prompt and tools: the first request without its user message."""
    seconds: float

    def price(self, sheet: Price) -> float:
        """Return the bill, in uncached input tokens."""
        return total(self.calls, sheet)

    @property
    def summaries(self) -> tuple[Call, ...]:
        """The calls for summaries."""
        return tuple(each for each in self.calls if each.kind == "summary")

    @property
    def largest(self) -> int:
        """Tokens of the largest request."""
        return max(each.tokens for each in self.calls)


def stock(name: str = "stock", **config: Any) -> Arm:
    """Return an arm of AgentScope's own."""
    return Arm(name=name, side="stock", config=config)


def ours(name: str, price: Price | None, **config: Any) -> Arm:
    """Return an arm of ctxkit's; `price` is what it is told that tokens cost."""
    return Arm(name=name, side="ctxkit", config={"cost": ctxkit.CostConfig(price=price), **config})


def masking() -> Arm:
    """Return the arm that masks old results at every step, and is AgentScope's own otherwise."""
    return Arm(name="mask every step", side="stock", masks=True)


async def play(
    arm: Arm,
    trajectory: Trajectory,
    *,
    window: int,
    chat_s: Callable[[int], float] = lambda _: STEP_S,
    summary_s: float = SUMMARY_S,
) -> Played:
    """Return what one run costs under one management of its context; to be run on a `JumpingLoop`.

    Args:
        arm: The management.
        trajectory: The run.
        window: Tokens of the model's window.
        chat_s: Seconds that an answer takes, by the step's number.
        summary_s: Seconds that a summary takes.
    """
    started = time.monotonic()
    model = BilledModel(trajectory, context_size=window, lookup=_lookup(arm), chat_s=chat_s, summary_s=summary_s)
    middleware = ctxkit.CompressionMiddleware()
    middlewares: list[MiddlewareBase] = [middleware] if arm.side == "ctxkit" else []
    if arm.masks:
        middlewares.append(_Mask())
    with tempfile.TemporaryDirectory(prefix="bill-") as folder:
        agent = make_agent(
            arm.side,
            model,
            make_tools(trajectory, model),
            workdir=Path(folder),
            system_prompt=words(SYSTEM_TOKENS, seed="system"),
            steps=len(trajectory.steps),
            middlewares=middlewares,
            # Files are written by threads that the clock does not know of.
            offloader=ctxkit.StoreOffloader(ctxkit.MemoryStore(), ctxkit.HostCodec()) if arm.side == "ctxkit" else None,
            **arm.config,
        )
        attached = await middleware._agents.attach(agent) if arm.side == "ctxkit" else None
        if attached is not None:
            # Steps and summaries take their time by the loop's clock alone.
            attached.engine.clock = asyncio.get_running_loop().time
        await converse(agent, trajectory)
        receipts = middleware.receipts(agent)
        await middleware.aclose()
    return Played(
        calls=tuple(model.calls),
        receipts=receipts,
        recalls=model.recalls,
        missed=model.missed,
        spans=tuple(model.spans),
        fixed_tokens=model.calls[0].tokens - USER_TOKENS,
        seconds=time.monotonic() - started,
    )


async def converse(agent: Agent, trajectory: Trajectory) -> None:
    """Let a user speak as often as the run says, and the agent answer."""
    for step in trajectory.steps:
        if step.is_user:
            said = words(USER_TOKENS, seed=f"user {trajectory.seed} {step.number}")
            async for _ in agent.reply_stream(UserMsg(name="user", content=said)):
                pass


def make_tools(trajectory: Trajectory, model: BilledModel) -> list[ToolBase]:
    """Return the agent's tools: what shows results, what shows them again, and others that weigh as real ones do."""

    def look(item: int) -> str:
        return trajectory.result(item)

    def look_again(_: int) -> str:
        need = model.needed
        return "" if need is None else trajectory.excerpt(need)

    others = [_Tool(f"tool_{number}", str) for number in range(TOOLS - 2)]
    return [_Tool(LOOK, look), _Tool(LOOK_AGAIN, look_again), *others]


class BilledModel(ScriptedModel):
    """Says what a made run says, looks up what it needs and does not see, and keeps what each call is billed.

    Args:
        trajectory: The run.
        context_size: Tokens of the window.
        lookup: How what has left the context is looked up.
        chat_s: Seconds that an answer takes, by the step's number.
        summary_s: Seconds that a summary takes.
    """

    def __init__(
        self,
        trajectory: Trajectory,
        *,
        context_size: int,
        lookup: Lookup,
        chat_s: Callable[[int], float],
        summary_s: float,
    ) -> None:
        super().__init__(context_size=context_size, summaries=self._summary, keep_messages=False)
        self.calls: list[Call] = []
        self.recalls = self.missed = 0
        self.spans: list[tuple[float, float]] = []
        """When each chat request came, and when it was answered, by the loop's clock."""
        self._steps = trajectory.steps
        self._seed = trajectory.seed
        self._lookup = lookup
        self._cache = PrefixCache()
        self._last_chat = 0
        self._chat_s = chat_s
        self._summary_s = summary_s
        self._next = 0
        self._is_open = False
        """Whether the reply goes on: a user has spoken and not all of its steps are done."""
        self._looked_up = False

    @property
    def needed(self) -> Any:
        """What the step at hand needs of an earlier result, or None."""
        return self._steps[self._next].need if self._next < len(self._steps) else None

    async def _record(
        self, messages: list[Msg], tools: list[dict[str, Any]], tool_choice: ToolChoice | None, options: dict[str, Any]
    ) -> ScriptedRequest:
        formatted = await self.formatter.format(messages)
        tokens = await self._counter.parts(formatted, tools)
        parts = [json.dumps(part, ensure_ascii=False) for part in (*tools, *formatted)]
        kind = self._kind(messages, tools)
        request = _Sent(
            kind=kind,
            messages=(),
            message_count=len(messages),
            tools=(),
            tool_choice=getattr(tool_choice, "mode", None),
            options=options,
            input_tokens=sum(tokens) + PRIMING_TOKENS,
            reused_tokens=self._cache.take(kind, parts, tokens),
            refused=False,
            before=self._last_chat,
        )
        if kind == "chat":
            self._last_chat = request.input_tokens
        self.requests.append(request)
        return request

    async def _usage(self, request: ScriptedRequest, blocks: Sequence[AnswerBlock], started: float) -> Any:
        usage = await super()._usage(request, blocks, started)
        self.calls.append(
            Call(
                kind=request.kind,
                tokens=request.input_tokens,
                reused=request.reused_tokens,
                before=request.before if isinstance(request, _Sent) else 0,
                answered=usage.output_tokens,
            )
        )
        return usage

    async def _say(self, messages: Sequence[Msg]) -> list[TextBlock | ToolCallBlock]:
        came = asyncio.get_running_loop().time()
        await asyncio.sleep(self._chat_s(self._next))
        said = self._next_said(messages)
        self.spans.append((came, asyncio.get_running_loop().time()))
        return said

    def _next_said(self, messages: Sequence[Msg]) -> list[TextBlock | ToolCallBlock]:
        step = self._steps[self._next] if self._next < len(self._steps) else None
        if step is None or (step.is_user and self._is_open):
            self._is_open = False
            return [TextBlock(text="This part is done.")]
        self._is_open = True
        if step.need is not None:
            is_seen = any(step.need.value in text for text in request_texts(messages))
            if not is_seen and not self._looked_up:
                self._looked_up = True
                self.recalls += 1
                return [TextBlock(text="I need a record that I saw before."), self._ask_again(step.need)]
            self.missed += not is_seen
        self._looked_up = False
        self._next += 1
        said = words(step.answer_tokens - 20, seed=f"answer {self._seed} {step.number}")
        return [TextBlock(text=said), call(LOOK, item=step.number)]

    def _ask_again(self, need: Any) -> ToolCallBlock:
        if self._lookup == "search_context":
            return call("search_context", query=need.key)
        return call(LOOK_AGAIN, item=need.step)

    async def _summary(self, _: Sequence[Msg]) -> dict[str, str]:
        """Return a summary that names nothing of what it summarises, as long as real ones are."""
        await asyncio.sleep(self._summary_s)
        number = len(self.calls)
        each = SUMMARY_TOKENS // len(SUMMARY_FIELDS)
        return {name: words(each, seed=f"summary {number} {name}") for name in SUMMARY_FIELDS}


@dataclass(frozen=True, kw_only=True)
class _Sent(ScriptedRequest):
    """A request, and how large the last one of the conversation was."""

    before: int


class _Tool(ToolBase):
    """A tool whose schema weighs what a real one's does."""

    is_concurrency_safe = False
    is_read_only = True

    def __init__(self, name: str, answer: Callable[[int], str]) -> None:
        super().__init__()
        self.name = name
        self.description = words(TOOL_TOKENS, seed=name)
        self.input_schema = {"type": "object", "properties": {"item": {"type": "integer"}}, "required": ["item"]}
        self._answer = answer

    async def check_permissions(self, *_: Any, **__: Any) -> PermissionDecision:
        """Allow."""
        return PermissionDecision(behavior=PermissionBehavior.ALLOW, message="It is a made run.")

    async def call(self, item: int = 0, **_: Any) -> ToolChunk:
        """Return the result."""
        return ToolChunk(content=[TextBlock(text=self._answer(item))])


class _Mask(MiddlewareBase):
    """Masks all results but the newest before each step."""

    async def on_reasoning(
        self,
        agent: Agent,
        input_kwargs: dict[str, Any],  # noqa: ARG002 - the host's signature
        next_handler: Callable[..., AsyncGenerator[Any, None]],
    ) -> AsyncGenerator[Any, None]:
        """Mask, and go on."""
        results = [block for message in agent.state.context for block in message.content if block.type == "tool_result"]
        for result in results[:-KEEP_RESULTS]:
            result.output = MASKED
        async for item in next_handler():
            yield item


def _lookup(arm: Arm) -> Lookup:
    return "search_context" if arm.side == "ctxkit" else "look_again"
