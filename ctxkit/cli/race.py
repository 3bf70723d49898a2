"""Runs the story twice, by the stock agent and by the one with ctxkit, and gathers what came of it."""

import asyncio
import shutil
import sys
import sysconfig
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from agentscope.agent import Agent, ReActConfig
from agentscope.agent import ContextConfig as HostContextConfig
from agentscope.event import AgentEvent, ReplyEndEvent
from agentscope.message import Msg, TextBlock, UserMsg
from agentscope.middleware import MiddlewareBase
from agentscope.permission import PermissionBehavior, PermissionContext, PermissionMode, PermissionRule
from agentscope.state import AgentState
from agentscope.tool import Toolkit
from agentscope.workspace import LocalWorkspace as HostWorkspace

from ctxkit import telemetry
from ctxkit.cli.report import (
    TRIGGER_RATIO,
    Asked,
    Began,
    Contestant,
    Figures,
    Noted,
    Noticed,
    Race,
    Stepped,
    Stored,
    Tell,
)
from ctxkit.cli.story import (
    ASKED_FILE,
    CONSTRAINT,
    Hands,
    Step,
    Story,
    ToolUse,
    answer_from,
    recall_query,
    tell_story,
)
from ctxkit.host.compression import CompressionMiddleware
from ctxkit.host.context_config import ContextConfig
from ctxkit.host.events import ContextEvent
from ctxkit.host.workspace import LocalWorkspace
from ctxkit.testing.scripted import AnswerBlock, ScriptedModel, call
from ctxkit.testing.scripted import Step as Answer

TOOLS: Final = frozenset({"Bash", "Glob", "Grep", "Read"})
"""Which tools of the workspace the agent gets: those that a survey needs."""

RESERVE_RATIO: Final = 0.1
"""AgentScope's default, said for both contestants."""

RESULT_LIMIT: Final = 3000
"""Tokens of one tool result, for both contestants: AgentScope's default of 50,000 is larger than the window."""

_HEARD_S: Final = 0.5
"""Seconds in which a run has stopped, if it heard that it should."""

_KINDS: Final = ("sessions/*/context.jsonl", "sessions/*/tool_result-*.txt", "data/*")
"""What a workspace stores, as AgentScope lays it out."""


async def run_race(*, window_tokens: int, folder: Path, tell: Tell) -> Race:
    """Run both contestants, one after the other; cancelling it ends it, wherever it is.

    Args:
        window_tokens: The window that the model enforces.
        folder: Where the workspaces go, in a folder for each contestant; it exists.
        tell: Is told what happens.
    """
    race = asyncio.create_task(_run_both(window_tokens=window_tokens, folder=folder, tell=tell))
    try:
        await asyncio.wait({race})
    except asyncio.CancelledError:
        # The host loses a cancellation that comes just when its parallel tools have ended: it is told again.
        while not race.done():
            race.cancel()
            await asyncio.wait({race}, timeout=_HEARD_S)
        raise
    return race.result()


async def _run_both(*, window_tokens: int, folder: Path, tell: Tell) -> Race:
    hands = Hands(
        library=Path(sysconfig.get_path("stdlib")),
        python=sys.executable,
        has_ripgrep=shutil.which("rg") is not None,
    )
    # The stock agent has no search; a clever one greps where the notices say that results were stored.
    stored_by_stock = folder / "stock" / "sessions"
    looking_back: dict[Contestant, ToolUse] = {
        "stock": hands.shell(f"grep -rhoE '.{{0,40}}{ASKED_FILE}.{{0,80}}' '{stored_by_stock}' | head -50"),
        "ctxkit": ToolUse(tool="search_context", arguments={"query": recall_query()}),
    }
    stories = {who: await asyncio.to_thread(tell_story, hands, recall=use) for who, use in looking_back.items()}
    runs = {
        who: await _Run(who, story, window_tokens=window_tokens, workdir=folder / who, tell=tell).figures()
        for who, story in stories.items()
    }
    story = stories["ctxkit"]
    return Race(
        window_tokens=window_tokens,
        constraint=CONSTRAINT,
        question=story.question,
        expected=story.expected,
        stock=runs["stock"],
        ctxkit=runs["ctxkit"],
    )


@dataclass(kw_only=True)
class _Seen:
    """What is gathered while a contestant runs."""

    steps: int = 0
    compressions: int = 0
    shortened: int = 0
    summary_calls: int = 0
    answer: str | None = None
    is_fact_in_context: bool | None = None
    is_constraint_live: bool = False
    died_of: str | None = None
    started: float = field(default_factory=time.monotonic)


class _Run:
    """One contestant's way through the story.

    Args:
        contestant: Who runs.
        story: What happens.
        window_tokens: The window that the model enforces.
        workdir: Folder of its workspace.
        tell: Is told what happens.
    """

    def __init__(self, contestant: Contestant, story: Story, *, window_tokens: int, workdir: Path, tell: Tell) -> None:
        self._contestant = contestant
        self._story = story
        self._workdir = workdir
        self._tell = tell
        self._seen = _Seen()
        self._model = ScriptedModel(
            self._script(), context_size=window_tokens, stream=True, enforce="cl100k", keep_messages=False
        )

    async def figures(self) -> Figures:
        """Run the story to its end, or to the contestant's."""
        self._tell(Began(contestant=self._contestant))
        if self._contestant == "stock":
            host_config = HostContextConfig(
                trigger_ratio=TRIGGER_RATIO, reserve_ratio=RESERVE_RATIO, tool_result_limit=RESULT_LIMIT
            )
            await self._live(HostWorkspace(workdir=str(self._workdir)), host_config, [])
        else:
            config = ContextConfig(
                trigger_ratio=TRIGGER_RATIO, reserve_ratio=RESERVE_RATIO, tool_result_limit=RESULT_LIMIT
            )
            async with CompressionMiddleware() as compression:
                await self._live(LocalWorkspace(workdir=str(self._workdir)), config, [compression])
        figures = await self._summed_up()
        self._tell(figures)
        return figures

    async def _live(
        self, workspace: HostWorkspace, config: HostContextConfig, middlewares: list[MiddlewareBase]
    ) -> None:
        await workspace.initialize()
        agent = Agent(
            name="librarian",
            system_prompt="You look after a Python installation. You work step by step and say what you find.",
            model=self._model,
            toolkit=Toolkit(tools=[tool for tool in await workspace.list_tools() if tool.name in TOOLS]),
            state=AgentState(permission_context=_permissions()),
            context_config=config,
            offloader=workspace,
            middlewares=middlewares,
            react_config=ReActConfig(max_iters=self._story.steps_total + 1),
        )
        try:
            for turn in self._story.turns:
                self._tell(Asked(text=turn.request))
                async with aclosing(agent.reply_stream(UserMsg("user", turn.request))) as events:
                    await self._watch(events)
        except Exception as exc:  # noqa: BLE001 - what kills an agent is what the demo shows
            self._seen.died_of = self._in_words(exc)

    async def _watch(self, events: AsyncGenerator[AgentEvent | Msg, None]) -> None:
        async for event in events:
            if isinstance(event, ContextEvent):
                self._seen.compressions += event.name == telemetry.DONE
                self._seen.shortened += event.name == telemetry.SHORTENED
                self._tell(Noticed(name=event.name, value=event.value))
            elif isinstance(event, ReplyEndEvent) and event.finished_reason == "interrupted":
                # The host swallows a cancellation; whoever pressed Ctrl-C does not want the next turn.
                raise asyncio.CancelledError

    def _script(self) -> Iterator[Answer]:
        """Yield the model's answers, each of which looks at the request that it answers."""
        for turn in self._story.turns:
            for step in turn.steps:
                yield partial(self._take, step)
            yield partial(self._answer, turn.answer)

    def _take(self, step: Step, messages: Sequence[Msg]) -> list[AnswerBlock]:
        self._look(step.what, messages)
        if step in self._story.turns[-1].steps:
            self._seen.is_fact_in_context = answer_from(_texts(messages)) == self._story.expected
        calls = [call(use.tool, **use.arguments) for use in step.uses]
        return [TextBlock(text=f"Next: {step.what}."), *calls]

    def _answer(self, answer: str | None, messages: Sequence[Msg]) -> str:
        self._look("answer", messages)
        if answer is None:
            answer = self._seen.answer = answer_from(_texts(messages))
        return answer

    def _look(self, what: str, messages: Sequence[Msg]) -> None:
        """Take note of a request that the model has got and will answer."""
        seen = self._seen
        seen.steps += 1
        seen.is_constraint_live = any(CONSTRAINT in text for text in _texts(messages))
        summaries = len(self._model.summary_requests)
        if self._contestant == "stock" and summaries > seen.summary_calls:
            seen.compressions += 1
            self._tell(Noted(text="compressed; the host does not say what, or how much"))
        seen.summary_calls = summaries
        self._tell(
            Stepped(
                contestant=self._contestant,
                number=seen.steps,
                total=self._story.steps_total,
                what=what,
                tokens=self._model.requests[-1].input_tokens,
            )
        )

    def _in_words(self, exc: Exception) -> str:
        last = self._model.requests[-1] if self._model.requests else None
        if last is not None and last.refused:
            what = "summary request" if last.kind == "summary" else "request"
            return f"the provider refused a {what} of {last.input_tokens:,} tokens, more than its window takes"
        return f"{type(exc).__name__}: {exc}"

    async def _summed_up(self) -> Figures:
        seen, requests = self._seen, self._model.requests
        answered = [request for request in requests if not request.refused]
        stored = await asyncio.to_thread(_stored, self._workdir)
        # The stock agent stores a result exactly where it shortens one, and says nothing.
        shortened = seen.shortened if self._contestant == "ctxkit" else stored[1].files
        return Figures(
            contestant=self._contestant,
            survived=seen.died_of is None and seen.steps == self._story.steps_total,
            died_of=seen.died_of,
            steps=seen.steps,
            steps_total=self._story.steps_total,
            model_calls=len(requests),
            refused_calls=len(requests) - len(answered),
            input_tokens=sum(request.input_tokens for request in answered),
            cached_tokens=sum(request.reused_tokens for request in answered),
            compressions=seen.compressions,
            longest_request_tokens=max((request.input_tokens for request in requests), default=0),
            results_shortened=shortened,
            stored=stored,
            is_fact_in_context=seen.is_fact_in_context,
            answer=seen.answer,
            is_answer_right=seen.answer == self._story.expected,
            is_constraint_live=seen.is_constraint_live,
            seconds=round(time.monotonic() - seen.started, 1),
        )


def _permissions() -> PermissionContext:
    """Nobody is there to be asked: what reads is allowed, and so are the story's own commands; the rest is refused."""
    rule = PermissionRule(tool_name="Bash", rule_content=None, behavior=PermissionBehavior.ALLOW, source="demo")
    return PermissionContext(mode=PermissionMode.DONT_ASK, allow_rules={"Bash": [rule]})


def _texts(messages: Sequence[Msg]) -> Iterator[str]:
    """Yield what a model reads in a request, newest first."""
    for message in reversed(messages):
        for block in reversed(message.get_content_blocks()):
            if block.type == "text":
                yield block.text
            elif block.type == "tool_result":
                output = block.output
                yield (
                    output
                    if isinstance(output, str)
                    else "\n".join(piece.text for piece in output if piece.type == "text")
                )


def _stored(workdir: Path) -> tuple[Stored, ...]:
    """Return what a workspace holds, by kind."""
    kinds = []
    for kind in _KINDS:
        sizes = [path.stat().st_size for path in workdir.glob(kind) if path.is_file()]
        kinds.append(Stored(where=kind, files=len(sizes), size_bytes=sum(sizes)))
    return tuple(kinds)
