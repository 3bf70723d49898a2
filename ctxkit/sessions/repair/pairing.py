"""Which result belongs to which call, and what is wrong with each of them.

Providers take a context only if the results of a turn's calls follow it at once, each call with one result. AgentScope
keeps both in one message: so each message is looked at in segments, what was said and called, then the results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctxkit.view import Place

if TYPE_CHECKING:
    from agentscope.message import Msg

    from ctxkit.port import Block

_AWAITING = frozenset({"asking", "submitted"})
"""States of calls that wait for a person or for another program."""


class Segment(NamedTuple):
    """What was said and called in a row, and the results behind it."""

    message: int
    """0-based index of the message."""
    number: int
    """0-based place among the segments of its message."""


@dataclass(eq=False, slots=True)
class Call:
    """A call, and what becomes of it."""

    block: Any
    place: Place
    segment: Segment
    result: Result | None = None
    is_open: bool = False
    """Its result is still to come: it waits for a person, or its reply runs."""
    is_copy: bool = False
    """The same call stands before it in its turn."""
    shares_id: bool = False
    """Another call before it in its turn has its id."""

    @property
    def is_incomplete(self) -> bool:
        """Whether it lacks what makes it a call; one without arguments was broken off unless it has a result."""
        if self.is_open:
            return False
        block = self.block
        if not block.id or not block.name or block.input is None:
            return True
        return not block.input.strip() and self.result is None


@dataclass(eq=False, slots=True)
class Result:
    """A result, and the call that it answers."""

    block: Any
    place: Place
    segment: Segment
    call: Call | None = None
    is_duplicate: bool = False
    """Its call has another result already."""

    @property
    def is_in_place(self) -> bool:
        """Whether it stands in the results that directly follow what its call was made with."""
        return self.call is not None and self.call.segment == self.segment


@dataclass(eq=False, slots=True)
class Pairing:
    """All calls and results of a context, in order."""

    calls: list[Call] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)


def segments(content: Sequence[Block]) -> Iterator[int]:
    """Yield for each block the number of its segment: one begins behind results, and at each hint.

    Args:
        content: The blocks of one message.

    Yields:
        A 0-based number.
    """
    number, in_results = 0, False
    for block in content:
        is_result = block.type == "tool_result"
        if block.type == "hint" or (in_results and not is_result):
            number += 1
        in_results = is_result
        yield number


def pair(messages: Sequence[Msg], *, agent_name: str | None, reply_id: str, is_running: bool) -> Pairing:
    """Return the calls and results of a context and who belongs to whom.

    A result answers the newest unanswered call before it that has its id (of calls of one turn, the first), also across
    messages: hosts of local models number calls anew in each reply. Failing that, it answers such a call behind it, unless
    a user's message stands between.

    Args:
        messages: The context, oldest message first.
        agent_name: Name of the agent whose context it is; `None` where it is not known.
        reply_id: Id of the reply that runs or ran last.
        is_running: Whether that reply runs.
    """
    pairing = Pairing()
    waiting: dict[str, list[Call]] = {}
    for index, message in enumerate(messages):
        for number, (block, segment) in enumerate(zip(message.content, segments(message.content), strict=True)):
            if block.type == "tool_call":
                call = Call(block, Place(index, number), Segment(index, segment))
                pairing.calls.append(call)
                _wait(call, waiting)
            elif block.type == "tool_result":
                result = Result(block, Place(index, number), Segment(index, segment))
                pairing.results.append(result)
                _answer(result, waiting)
    _open_calls(messages, pairing, agent_name=agent_name, reply_id=reply_id, is_running=is_running)
    _answer_later_calls(messages, pairing)
    return pairing


def _wait(call: Call, waiting: dict[str, list[Call]]) -> None:
    """Let a call wait for its result, together with those of its turn that have its id."""
    others = waiting.get(call.block.id, [])
    if not others or others[0].segment != call.segment:
        waiting[call.block.id] = [call]
        return
    same = (call.block.name, call.block.input)
    call.is_copy = any((other.block.name, other.block.input) == same for other in others)
    if not call.is_copy:
        call.shares_id = True
        others.append(call)


def _answer(result: Result, waiting: dict[str, list[Call]]) -> None:
    calls = waiting.get(result.block.id, [])
    call = next((call for call in calls if call.result is None and _is_named_alike(call, result)), None)
    if call is not None:
        _join(call, result)
    else:
        result.is_duplicate = any(_is_named_alike(call, result) for call in calls)


def _is_named_alike(call: Call, result: Result) -> bool:
    """Return whether they name the same tool, as far as they name one."""
    names = call.block.name, result.block.name
    return not all(names) or names[0] == names[1]


def _join(call: Call, result: Result) -> None:
    call.result, result.call = result, call


def _open_calls(
    messages: Sequence[Msg], pairing: Pairing, *, agent_name: str | None, reply_id: str, is_running: bool
) -> None:
    """Find the calls whose result is still to come: AgentScope looks for them in the agent's own last message only."""
    tail = messages[-1] if messages else None
    if tail is None or tail.role != "assistant" or agent_name not in {None, tail.name}:
        return
    last = len(messages) - 1
    unanswered = [call for call in pairing.calls if call.place.message == last and call.result is None]
    is_parked = any(call.block.state in _AWAITING for call in unanswered)
    newest = {call.block.id: call.segment for call in pairing.calls if call.place.message == last}
    for call in unanswered:
        # The other calls of a parked reply are run when it goes on. Of two turns' calls of one id that is the later one.
        is_whole = call.block.id and call.block.name and not call.is_copy
        can_go_on = is_whole and call.block.state != "finished" and newest[call.block.id] == call.segment
        call.is_open = (is_running and tail.id == reply_id) or bool(is_parked and can_go_on)


def _answer_later_calls(messages: Sequence[Msg], pairing: Pairing) -> None:
    """Give results without an earlier call to a later one of the same turn of the conversation."""
    unanswered: defaultdict[str, list[Call]] = defaultdict(list)
    for call in pairing.calls:
        if call.result is None and not call.is_open and not call.is_copy:
            unanswered[call.block.id].append(call)
    if not unanswered:
        return
    requests = [0]
    for message in messages:
        requests.append(requests[-1] + (message.role == "user"))
    for result in pairing.results:
        if result.call is not None or result.is_duplicate:
            continue
        for call in unanswered.get(result.block.id, ()):
            behind = call.place > result.place and requests[call.place.message] == requests[result.place.message]
            if call.result is None and behind and _is_named_alike(call, result):
                _join(call, result)
                break
