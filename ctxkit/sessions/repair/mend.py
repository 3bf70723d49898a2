"""Mends the pairs of a context: each call gets its one result, behind what it was made with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from ctxkit.sessions.repair.pairing import Call, Pairing, Result, pair, segments
from ctxkit.sessions.repair.report import Kind, Repair, Repaired
from ctxkit.view import Place

if TYPE_CHECKING:
    from agentscope.message import Msg

    from ctxkit.port import Block, Codec

MISSING_RESULT: Final = (
    "[ctxkit] missing tool result: it was lost before it could be saved, and whether the tool ran is not known. "
    "Check what it has done before you call it again."
)
"""What stands in place of a result that is missing; the beginning is OpenClaw's wording."""


@dataclass
class _Changes:
    """What becomes of the blocks of one message, by their numbers in it."""

    dropped: set[int] = field(default_factory=set)
    moved: set[int] = field(default_factory=set)
    """Results that go to another place."""
    replaced: dict[int, Any] = field(default_factory=dict)
    inserted: dict[int, Any] = field(default_factory=dict)
    """The results that calls get, by the number of the call."""
    open_calls: set[int] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.dropped or self.moved or self.replaced or self.inserted)


class PairMender:
    """Mends the pairs of one context.

    Args:
        messages: The context, oldest message first; it is not changed.
        codec: Builds what is new.
        agent_name: Name of the agent whose context it is; `None` where it is not known.
        reply_id: Id of the reply that runs or ran last.
        is_running: Whether that reply runs: its last message stays, and its calls are left alone.
    """

    def __init__(
        self, messages: Sequence[Msg], codec: Codec, *, agent_name: str | None, reply_id: str, is_running: bool
    ) -> None:
        self._messages = messages
        self._codec = codec
        self._is_running = is_running and bool(messages) and messages[-1].id == reply_id
        self._pairing: Pairing = pair(messages, agent_name=agent_name, reply_id=reply_id, is_running=is_running)
        self._changes = [_Changes() for _ in messages]
        self._repairs: list[tuple[Place, Repair]] = []
        self._ids = {block.id for message in messages for block in message.content}

    def mended(self) -> Repaired:
        """Return the context with whole pairs, and what was done."""
        for call in self._pairing.calls:
            self._mend(call)
        for result in self._pairing.results:
            if result.call is None:
                self._drop_result(result)
        messages: list[Msg] = []
        dropped: list[Msg] = []
        for index, (message, changes) in enumerate(zip(self._messages, self._changes, strict=True)):
            content = list(_rebuilt(message.content, changes)) if changes else message.content
            stays = bool(content) or (self._is_running and index == len(self._messages) - 1)
            if changes.dropped or not stays:
                left = [block for number, block in enumerate(message.content) if number in changes.dropped]
                dropped.append(self._codec.with_content(message, left) if message.content else message)
            if not stays:
                self._note(Place(index, 0), "empty_message", None, "has nothing in it: it was dropped")
            elif changes:
                messages.append(self._codec.with_content(message, content))
            else:
                messages.append(message)
        repairs = [repair for _, repair in sorted(self._repairs, key=lambda noted: noted[0])]
        return Repaired(messages=messages, repairs=repairs, dropped=dropped)

    def _mend(self, call: Call) -> None:
        """Decide on a call and its result."""
        if call.is_open:
            self._at(call).open_calls.add(call.place.block)
            if call.shares_id and not self._is_running:
                self._at(call).replaced[call.place.block] = self._named_anew(call)
        elif call.is_incomplete or call.is_copy:
            self._drop_call(call)
        else:
            new = self._named_anew(call) if call.shares_id else call.block
            if self._is_stuck(call):
                self._note(call.place, "stuck_call", call, "waits though it has a result: it was marked as finished")
                new = self._codec.with_state(new, "finished")
            if call.result is None:
                self._note(call.place, "missing_result", call, "has no result: an error was put there")
                self._at(call).inserted[call.place.block] = self._missing_result(new)
                new = self._codec.with_state(new, "finished") if new.state != "finished" else new
            else:
                self._settle(call, call.result, new.id)
            if new is not call.block:
                self._at(call).replaced[call.place.block] = new

    def _settle(self, call: Call, result: Result, call_id: str) -> None:
        """Bring a result to its call."""
        block = result.block if result.block.id == call_id else self._codec.with_id(result.block, call_id)
        if not result.is_in_place:
            self._note(result.place, "misplaced_result", result, "does not follow its call: it was moved there")
            self._at(result).moved.add(result.place.block)
            self._at(call).inserted[call.place.block] = block
        elif block is not result.block:
            self._at(result).replaced[result.place.block] = block

    def _drop_call(self, call: Call) -> None:
        if call.is_incomplete:
            self._note(call.place, "incomplete_call", call, "lacks an id, a name or arguments: it was dropped")
        else:
            self._note(call.place, "duplicate_call", call, "is there twice: the second was dropped")
        self._at(call).dropped.add(call.place.block)
        if call.result is not None:
            self._drop_result(call.result)

    def _drop_result(self, result: Result) -> None:
        if result.is_duplicate:
            self._note(result.place, "duplicate_result", result, "is a second one: it was dropped")
        else:
            self._note(result.place, "orphan_result", result, "answers no call: it was dropped")
        self._at(result).dropped.add(result.place.block)

    def _named_anew(self, call: Call) -> Any:
        number = 2
        while (name := f"{call.block.id}-{number}") in self._ids:
            number += 1
        self._ids.add(name)
        self._note(call.place, "duplicate_call", call, f"has the id of another call of its turn: it is {name!r} now")
        return self._codec.with_id(call.block, name)

    def _is_stuck(self, call: Call) -> bool:
        """Return whether AgentScope would wait for a person though the call has its result, and take no message."""
        is_last = call.place.message == len(self._messages) - 1
        return is_last and not self._is_running and call.result is not None and call.block.state == "asking"

    def _missing_result(self, call: Any) -> Any:
        result = self._codec.result(MISSING_RESULT, id=call.id, name=call.name, state="error")
        return self._codec.with_output(result, result.output, mark={"repair": "missing_result"})

    def _at(self, item: Call | Result) -> _Changes:
        return self._changes[item.place.message]

    def _note(self, place: Place, kind: Kind, item: Call | Result | None, what: str) -> None:
        message = self._messages[place.message]
        block_id, subject = None, f"message {message.id!r}"
        if item is not None:
            block_id = item.block.id
            word = "call" if isinstance(item, Call) else "result"
            subject = f"{word} {block_id!r} ({item.block.name or 'no name'}) in {subject}"
        self._repairs.append(
            (place, Repair(kind=kind, what=f"{subject} {what}", message_id=message.id, block_id=block_id))
        )


def _rebuilt(content: Sequence[Block], changes: _Changes) -> Iterator[Block]:
    """Yield the blocks of a message after its changes."""
    gone = changes.dropped | changes.moved
    for _, numbers in groupby(enumerate(segments(content)), key=lambda pair: pair[1]):
        kept = [number for number, _ in numbers if number not in gone]
        said = [number for number in kept if content[number].type != "tool_result"]
        results = [changes.replaced.get(n, content[n]) for n in kept if content[n].type == "tool_result"]
        if results or not changes.open_calls.isdisjoint(said):
            # All results of a turn stand together, and those to come will stand at the end.
            yield from (changes.replaced.get(number, content[number]) for number in said)
            yield from results
            yield from (changes.inserted[number] for number in said if number in changes.inserted)
        else:
            yield from _with_results(content, said, changes)


def _with_results(content: Sequence[Block], said: Iterable[int], changes: _Changes) -> Iterator[Block]:
    """Yield what was said and called, each result right behind its call and the calls made together with it."""
    waiting: list[Block] = []
    for number in said:
        if content[number].type != "tool_call":
            yield from waiting
            waiting = []
        yield changes.replaced.get(number, content[number])
        if number in changes.inserted:
            waiting.append(changes.inserted[number])
    yield from waiting
