"""The only code that changes an agent: `HostPort` is one agent as the engine needs it, `HostModel` one chat model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast
from weakref import ref

from agentscope.message import AssistantMsg
from agentscope.model import ChatResponse, FinishedReason
from agentscope.tool import ToolChoice

from ctxkit.config import WindowConfig
from ctxkit.host import _compat
from ctxkit.host._sessions import hold_of
from ctxkit.host._usage import input_tokens_of
from ctxkit.port import SLOT, Answer, Request
from ctxkit.port import Usage as CallUsage
from ctxkit.tokens.windows import resolve_window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentscope.agent import Agent
    from agentscope.message import Msg
    from agentscope.model import ChatModelBase, ChatUsage

    from ctxkit.port import Block, Piece, Swap


_ANY_WINDOW = WindowConfig()


class HostModel:
    """One of AgentScope's chat models; see `ctxkit.port.ModelPort`.

    Args:
        model: The host's model.
        window: How its window is told.
    """

    def __init__(self, model: ChatModelBase, *, window: WindowConfig = _ANY_WINDOW) -> None:
        self.model = model
        self._window = window

    @property
    def key(self) -> str:
        """Class and name of the model."""
        return model_key(self.model)

    @property
    def context_size(self) -> int:
        """Tokens of the model's context window.

        Raises:
            ConfigError: Nobody knows them.
        """
        return resolve_window(self.model.model, self.model.context_size, self._window)

    async def call(
        self,
        messages: Sequence[Msg],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        tool_choice: object | None = None,
        forbid_tools: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Call the model and gather its whole answer, streaming or not."""
        choice = ToolChoice(mode="none") if forbid_tools else tool_choice
        answer = await self.model(
            messages=list(messages),
            tools=[dict(tool) for tool in tools],
            tool_choice=choice,  # type: ignore[arg-type]  # the host's own choice, handed through
            **(options or {}),
        )
        if isinstance(answer, ChatResponse):
            return self._gathered(answer)
        last: ChatResponse | None = None
        async for chunk in answer:
            if chunk.is_last:
                last = chunk
        return Answer() if last is None else self._gathered(last)

    async def structured(self, messages: Sequence[Msg], schema: Mapping[str, Any]) -> Answer:
        """Ask by the host's `generate_structured_output`."""
        response = await self.model.generate_structured_output(list(messages), dict(schema))
        return Answer(
            content=response.content,
            usage=call_usage(response.usage, self.model),
            interrupted=response.finished_reason == FinishedReason.INTERRUPTED,
        )

    def _gathered(self, response: ChatResponse) -> Answer:
        return Answer(
            text="".join(block.text for block in response.content if block.type == "text"),
            tool_calls=[block.name for block in response.content if block.type == "tool_call"],
            usage=call_usage(response.usage, self.model),
            interrupted=response.finished_reason == FinishedReason.INTERRUPTED,
        )


class HostPort:
    """One AgentScope agent; see `ctxkit.port.AgentPort`.

    It does not keep the agent alive: who holds the port is held by the agent's middleware.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = ref(agent)

    @property
    def agent(self) -> Agent:
        """The agent.

        Raises:
            ReferenceError: The agent is gone.
        """
        agent = self._agent()
        if agent is None:
            msg = "the agent that this port belongs to is gone"
            raise ReferenceError(msg)
        return agent

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.agent.name

    @property
    def session_id(self) -> str:
        """The id under which the agent's content is stored."""
        return self.agent.state.session_id

    @property
    def reply_id(self) -> str:
        """The id of the reply that runs or ran last."""
        return self.agent.state.reply_id

    @property
    def model(self) -> HostModel:
        """The model that the next call will use."""
        return HostModel(self.agent.model, window=window_of(self.agent))

    def model_of(self, model: object) -> HostModel:
        """Return another of the host's chat models as a port."""
        return HostModel(cast("ChatModelBase", model))  # `SummaryConfig` has looked at it

    @property
    def context(self) -> list[Msg]:
        """The live context."""
        return self.agent.state.context

    @property
    def summary(self) -> list[Piece] | str:
        """The live summary layer."""
        return self.agent.state.summary

    @property
    def slot(self) -> dict[str, Any]:
        """ctxkit's state of this agent, made where there is none or where what is there is no dict."""
        slot = self.agent.state.middle_context.get(SLOT)
        if not isinstance(slot, dict):
            slot = self.agent.state.middle_context[SLOT] = {}
        return slot

    async def request(self) -> Request:
        """Return the request that the host would send now."""
        messages, tools = await _compat.prepare_request(self.agent)
        return Request(messages=messages, tools=tools)

    async def host_count(self, pieces: Sequence[Piece]) -> int:
        """Return the tokens that the host itself counts for a tool result's output."""
        return await self.agent.model.count_tokens([AssistantMsg(self.agent.name, content=list(pieces))], None)

    async def checkpoint(self) -> None:
        """Save the agent's session, where somebody does.

        Raises:
            StoreError: It could not be saved; the state saved before stays.
            SessionLockedError: Another owner holds the session.
        """
        hold = hold_of(self.agent)
        if hold is not None:
            await hold.save()

    def append(self, message: Msg) -> None:
        """Put a message at the end of the context."""
        self.agent.state.context.append(message)

    async def swap(self, swap: Swap) -> bool:
        """Change the context in one step, or return False where what the plan saw has changed meanwhile."""
        state = self.agent.state
        if not _still_there(state.context, swap):
            return False
        read_paths = _read_paths(_rebased(state.context, swap))
        await state.tool_context.clean_file_cache(reserved_file_paths=read_paths)
        # No await from here on: whoever looks sees the context of before or that of after. What came during the last one
        # is looked at anew; a file whose Read came then may be gone from the cache, and is read again before an edit.
        if not _still_there(state.context, swap):
            return False
        gathered = _compat.reply_usage(self.agent)
        state.context = _rebased(state.context, swap)
        if swap.summary is not None:
            state.summary = swap.summary if isinstance(swap.summary, str) else list(swap.summary)
        if gathered is not None and _compat.reply_usage(self.agent) is None:
            # The running reply's message is gone; the host reads its usage for the final message.
            state.append_context(self.agent.name, [])
            state.context[-1].usage = gathered
        if swap.usage is not None:
            self.charge(swap.usage)
        return True

    def charge(self, usage: CallUsage) -> None:
        """Add what a summary cost to the tail's usage, where the host books its own summary calls."""
        state = self.agent.state
        if not state.context:
            state.append_context(self.agent.name, [])
        _compat.add_usage(state.context[-1], usage)


def window_of(agent: Agent) -> WindowConfig:
    """Return how the window of an agent's own model is told; a config of the host's own says nothing of it."""
    window: WindowConfig = getattr(agent.context_config, "window", _ANY_WINDOW)
    return window


def model_key(model: ChatModelBase) -> str:
    """Return the name that tells a model's token counts from another's."""
    return f"{type(model).__name__}:{model.model}"


def call_usage(usage: ChatUsage | None, model: ChatModelBase) -> CallUsage | None:
    """Return a call's usage with cached tokens in the input, whatever the provider's habit."""
    if usage is None:
        return None
    return CallUsage(
        input_tokens=input_tokens_of(usage, model),
        output_tokens=usage.output_tokens,
        cache_read_tokens=getattr(usage, "cache_input_tokens", 0) or 0,
        cache_write_tokens=getattr(usage, "cache_creation_input_tokens", 0) or 0,
    )


def _still_there(live: Sequence[Msg], swap: Swap) -> bool:
    """Whether what the plan saw is there unchanged; only the last message may have grown, and others may follow."""
    seen = len(swap.seen)
    if len(live) < seen or any(a is not b for a, b in zip(live, swap.seen, strict=False)):
        return False
    for index, content in enumerate(swap.seen_contents):
        now = live[index].content
        grown = len(now) - len(content)
        if grown < 0 or (grown > 0 and index < seen - 1) or any(a is not b for a, b in zip(now, content, strict=False)):
            return False
    return True


def _rebased(live: Sequence[Msg], swap: Swap) -> list[Msg]:
    """Return the planned context followed by what came since the plan was made."""
    context = list(swap.context)
    if swap.seen:
        last = swap.seen[-1]
        grown: list[Block] = live[len(swap.seen) - 1].content[len(swap.seen_contents[-1]) :]
        if grown and not (context and context[-1] is last):  # the live message itself has what came already
            ends = bool(context) and context[-1].id == last.id
            there = context.pop().content if ends else []
            context.append(last.model_copy(update={"content": [*there, *grown]}))
    return [*context, *live[len(swap.seen) :]]


def _read_paths(context: Sequence[Msg]) -> set[str]:
    """Return the files whose Read results are still in the context; the host's Edit and Write trust its cache of them."""
    paths: set[str] = set()
    for message in context:
        for block in message.content:
            if block.type == "tool_call" and block.name == "Read":
                try:
                    path = json.loads(block.input).get("file_path")
                except (ValueError, AttributeError, RecursionError):
                    continue
                if isinstance(path, str):
                    paths.add(path)
    return paths
