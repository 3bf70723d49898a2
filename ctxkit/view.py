"""A read-only view of a context: its exchanges, its reasoning steps, and where it may be cut.

One reply of an AgentScope agent is one message whose blocks interleave thinking, text, calls and results; imported
transcripts keep calls and results in messages of their own. The view treats both alike: it walks all blocks in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from agentscope.message import Msg

    from ctxkit.port import Block

REQUEST_MESSAGES = 16
"""Most messages that make up the newest user request. A person asks in a handful of messages; a longer run is a chat that
the agent listened to, and were all of it a request, nothing of it could ever leave."""

_content: Final = attrgetter("content")

_ENDS_STEP = frozenset({"tool_result", "hint"})
"""Behind blocks of these types, what an assistant says next begins a reasoning step."""


class Place(NamedTuple):
    """A block's place, or the place of a cut before it."""

    message: int
    """0-based index of the message."""
    block: int
    """0-based index of the block in its message."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A tool call and its result."""

    call_id: str
    tool: str
    call: Place
    result: Place | None
    """`None` where the call has no result, or none yet."""


def contents_of(messages: Iterable[Msg]) -> tuple[tuple[Block, ...], ...]:
    """Return the blocks that messages have now; at C speed, for each reasoning step asks for them."""
    return tuple(map(tuple, map(_content, messages)))


class View:
    """The context of one agent at one moment.

    Args:
        messages: The context, oldest message first; the view keeps these very objects and never changes them;
            blocks that are appended later are not part of it.
        agent_name: Name of the agent whose context it is.
        reply_id: Id of the reply that runs or ran last.
    """

    def __init__(self, messages: Sequence[Msg], *, agent_name: str = "", reply_id: str = "") -> None:
        self.messages: tuple[Msg, ...] = tuple(messages)
        self.contents: tuple[tuple[Block, ...], ...] = contents_of(self.messages)
        self.agent_name = agent_name
        self.reply_id = reply_id

    def __len__(self) -> int:
        return len(self.messages)

    def changed(self, messages: Sequence[Msg]) -> View:
        """Return the view of what a plan makes of this context.

        A message that the plan left alone has the blocks that it has here, though it may have grown meanwhile.

        Args:
            messages: The messages that the plan leaves.
        """
        view = View(messages, agent_name=self.agent_name, reply_id=self.reply_id)
        seen = {id(message): content for message, content in zip(self.messages, self.contents, strict=True)}
        view.contents = tuple(seen.get(id(m), content) for m, content in zip(view.messages, view.contents, strict=True))
        return view

    def blocks(self) -> Iterator[tuple[Place, Block]]:
        """Yield each block with its place, in order; blocks that came after the view was made are left out."""
        for index, content in enumerate(self.contents):
            for number, block in enumerate(content):
                yield Place(index, number), block

    @cached_property
    def exchanges(self) -> tuple[Exchange, ...]:
        """All tool calls in order, each with its result; an id that is used again starts a new exchange."""
        calls: list[tuple[str, str, Place]] = []
        results: dict[int, Place] = {}
        waiting: dict[str, int] = {}
        for index, content in enumerate(self.contents):
            for number, block in enumerate(content):
                if block.type == "tool_call":
                    waiting[block.id] = len(calls)
                    calls.append((block.id, block.name, Place(index, number)))
                elif block.type == "tool_result" and block.id in waiting:
                    results[waiting.pop(block.id)] = Place(index, number)
        return tuple(
            Exchange(call_id=call_id, tool=tool, call=place, result=results.get(number))
            for number, (call_id, tool, place) in enumerate(calls)
        )

    @cached_property
    def unfinished(self) -> tuple[Exchange, ...]:
        """The calls whose result is still to come.

        The host gives results to calls of its last message and of the running reply only. Calls without a result that
        stand elsewhere, as a crash or another program leaves them, never get one and are not among these: nothing is
        gained by keeping them, and a context with one at its start could not be cut at all.
        """
        last = len(self.messages) - 1
        return tuple(
            exchange
            for exchange in self.exchanges
            if exchange.result is None
            and (exchange.call.message == last or self.messages[exchange.call.message].id == self.reply_id)
        )

    def is_unfinished(self, place: Place) -> bool:
        """Whether the block at a place is a call whose result is still to come."""
        return place in self._unfinished_places

    @cached_property
    def _unfinished_places(self) -> frozenset[Place]:
        return frozenset(exchange.call for exchange in self.unfinished)

    @cached_property
    def cuts(self) -> tuple[Place, ...]:
        """The places before which a cut is legal, in order, the very start first; the end is none of them.

        A cut is legal where no exchange spans it, no unfinished call lies before it, and a reasoning step begins: at a
        message's start, or inside an assistant's message behind a result or a hint. So thinking stays with its calls.
        Hints at the very end begin no step: they wait with the results before them, which the model has not seen yet.
        """
        closing = {exchange.result for exchange in self.exchanges if exchange.result is not None}
        opening = {
            exchange.call for exchange in self.exchanges if exchange.result is not None
        } | self._unfinished_places
        cuts: list[Place] = []
        open_calls = 0
        for index, content in enumerate(self.contents):
            begins = True
            for number, block in enumerate(content):
                kind = block.type
                if begins and open_calls == 0 and (number == 0 or kind != "tool_result"):
                    cuts.append(Place(index, number))
                if kind == "tool_call":
                    open_calls += (index, number) in opening
                elif kind == "tool_result":
                    open_calls -= (index, number) in closing
                begins = kind in _ENDS_STEP
        while cuts and cuts[-1].block > 0 and self.contents[cuts[-1].message][cuts[-1].block].type == "hint":
            cuts.pop()
        return tuple(cuts)

    @cached_property
    def latest_request(self) -> tuple[int, ...]:
        """Indices of the messages of the newest user request, oldest first.

        It is the last run of user messages, at most its newest `REQUEST_MESSAGES`.
        """
        last = next((i for i in range(len(self.messages) - 1, -1, -1) if self.messages[i].role == "user"), None)
        if last is None:
            return ()
        first = last
        while first > max(0, last + 1 - REQUEST_MESSAGES) and self.messages[first - 1].role == "user":
            first -= 1
        return tuple(range(first, last + 1))

    @cached_property
    def counts(self) -> tuple[tuple[int, ...], ...]:
        """How many messages of a provider's format begin with each block, by message and block: 1 or 0.

        Each call and each result is one, and so is each run of texts, thinking, hints and media between them.
        """
        rows = []
        for content in self.contents:
            kinds = [block.type for block in content]
            apart = [kind in {"tool_call", "tool_result"} for kind in kinds]
            rows.append(tuple(int(one or n == 0 or apart[n - 1]) for n, one in enumerate(apart)))
        return tuple(rows)

    def with_partners(self, messages: Iterable[int]) -> frozenset[int]:
        """Return messages and all those that hold the other half of one of their exchanges, by index."""
        kept = set(messages)
        if kept:
            across = [
                {exchange.call.message, exchange.result.message}
                for exchange in self.exchanges
                if exchange.result is not None and exchange.result.message != exchange.call.message
            ]
            while more := [pair for pair in across if pair & kept and not pair <= kept]:
                kept.update(*more)
        return frozenset(kept)

    @cached_property
    def turns(self) -> tuple[range, ...]:
        """The indices of the messages of each turn, oldest first.

        A turn goes from a run of user messages to the next; what stands before the first user message is one of its own.
        """
        starts = [
            index
            for index, message in enumerate(self.messages)
            if index == 0 or (message.role == "user" and self.messages[index - 1].role != "user")
        ]
        return tuple(range(start, stop) for start, stop in pairwise([*starts, len(self)]))

    @cached_property
    def user_turns(self) -> tuple[range, ...]:
        """The turns that a user began, oldest first; what stands before the first of them belongs to it."""
        begun = [turn for turn in self.turns if self.messages[turn.start].role == "user"]
        return (range(begun[0].stop), *begun[1:]) if begun else ()

    @cached_property
    def complete_turns(self) -> tuple[range, ...]:
        """The turns that a user began before the newest request."""
        request = self.latest_request
        return tuple(turn for turn in self.user_turns if request and turn.stop <= request[0])

    @cached_property
    def finished_turns(self) -> tuple[range, ...]:
        """The turns before that of the newest user request; none where nobody asked."""
        request = self.latest_request
        return tuple(turn for turn in self.turns if request and turn.stop <= request[0])

    @property
    def is_running_last(self) -> bool:
        """Whether the last message is the one that the running or parked reply appends to."""
        if not self.messages:
            return False
        tail = self.messages[-1]
        return tail.role == "assistant" and tail.name == self.agent_name and tail.id == self.reply_id

    def cut_for(self, tokens: Sequence[Sequence[float]], keep_tokens: float) -> Place:
        """Return the legal cut that keeps most within a budget.

        Args:
            tokens: Tokens of each block, by message and block.
            keep_tokens: Tokens that may stay behind the cut.

        Returns:
            The earliest legal cut behind which at most `keep_tokens` stand; where even the last step is larger, the
            last legal cut, so that the newest step always stays. The very start means that nothing may be cut.
        """
        if not self.cuts:
            return Place(0, 0)
        kept = 0.0
        best = self.cuts[-1]
        wanted = len(self.cuts) - 1
        for message in range(len(self.messages) - 1, -1, -1):
            for block in range(len(self.contents[message]) - 1, -1, -1):
                kept += tokens[message][block]
                if wanted >= 0 and self.cuts[wanted] == (message, block):
                    if kept > keep_tokens:
                        return best
                    best = self.cuts[wanted]
                    wanted -= 1
        return best
