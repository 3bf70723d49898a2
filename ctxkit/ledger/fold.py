"""The ledger: the facts of many blocks folded into one small record that never forgets by paraphrase."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ctxkit.ledger.adapters import adapted
from ctxkit.ledger.entries import Command, Failure, Job, Mention, Tested, Touch
from ctxkit.ledger.facts import Facts, raw_texts, scan_block
from ctxkit.ledger.failing import Key
from ctxkit.ledger.folding import Fold
from ctxkit.ledger.ranking import BOILERPLATE_COUNT, BOILERPLATE_SHARE, score
from ctxkit.ledger.saved import JSON_BYTES, ledger_json, parts_of_json

if TYPE_CHECKING:
    from agentscope.message import Msg

    from ctxkit.port import Block

_PAUSE_CHARS: Final = 32 * 1024
_PAUSE_FACTS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Facts of everything that was folded in; a value: `add` and `merge` return new ones."""

    step: int = 0
    """Blocks folded in so far; the clock by which newer is told from older."""
    identifiers: Mapping[str, Mention] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Path to the last operation that worked, oldest first."""
    touches: Mapping[str, Touch] = field(default_factory=dict)
    """When these files were touched last, and a hash of what they hold where it is known."""
    commands: Sequence[Command] = ()
    """Oldest first."""
    errors: Sequence[str] = ()
    """Error lines, oldest first, each once."""
    failures: Mapping[Key, Failure] = field(default_factory=dict)
    """What went wrong, by the work that it went wrong at, oldest first; open or resolved."""
    tests: Mapping[str, Tested] = field(default_factory=dict)
    """How each test went last, oldest first."""
    jobs: Mapping[str, Job] = field(default_factory=dict)
    """Calls that wait, background jobs and tasks, by their ids, oldest first."""
    promises: Sequence[str] = ()
    """What the assistant decided or promised, verbatim, oldest first."""
    constraints: Sequence[str] = ()
    """What the user demands or forbids, verbatim, oldest first."""

    @property
    def open_failures(self) -> tuple[Failure, ...]:
        """What went wrong and has not gone well since, oldest first."""
        return tuple(failure for failure in self.failures.values() if failure.is_open)

    def add(self, *facts: Facts) -> "Ledger":
        """Return a ledger that knows these facts too, given oldest first."""
        fold = Fold(self)
        for one in facts:
            fold.take(one)
        return fold.ledger()

    def merge(self, later: "Ledger") -> "Ledger":
        """Return a ledger that knows both; what `later` saw counts as newer."""
        fold = Fold(self)
        fold.take_ledger(later)
        return fold.ledger()

    async def read(self, messages: "Iterable[Msg]") -> "Ledger":
        """Return a ledger that knows these messages too, oldest first, scanned with pauses for the event loop."""
        fold = Fold(self)
        calls: dict[str, Block] = {}
        chars = since = 0
        for message in messages:
            for block in message.content:
                facts = await scan_block(block, role=message.role)
                _take(fold, block, facts, calls)
                chars += sum(map(len, raw_texts(block)))
                since += 1
                if chars > _PAUSE_CHARS or since > _PAUSE_FACTS:
                    chars = since = 0
                    await asyncio.sleep(0)
        steps = fold.finish()
        while True:
            try:
                next(steps)
            except StopIteration as done:
                ledger: Ledger = done.value
                return ledger
            await asyncio.sleep(0)

    def ranked(self, exclude: "frozenset[str] | set[str]" = frozenset()) -> list[str]:
        """Return the identifiers most likely to be needed again first; the order depends on the ledger only."""
        often = max(BOILERPLATE_COUNT, BOILERPLATE_SHARE * self.step)
        scores = [
            (-score(name, mention.blocks, mention.used, mention.newest, step=self.step), name)
            for name, mention in self.identifiers.items()
            if mention.blocks < often and name not in exclude
        ]
        scores.sort()
        return [name for _, name in scores]

    def to_json(self, limit_bytes: int = JSON_BYTES) -> dict[str, Any]:
        """Return plain JSON of at most about `limit_bytes` in UTF-8; what ranks lowest is left out.

        A half of it at most goes to what explains itself, whose newest stay, an eighth to lines; identifiers get the rest.
        """
        return ledger_json(self, limit_bytes)

    @classmethod
    def from_json(cls, data: object) -> "Ledger":
        """Return the ledger that `to_json` wrote; what cannot be read is left out, never refused."""
        return cls(**parts_of_json(data))


def _take(fold: Fold, block: "Block", facts: Facts, calls: "dict[str, Block]") -> None:
    """Take the facts of a block; of a result, with what the tool's adapter says of the call."""
    if block.type == "tool_call":
        calls[block.id] = block
        fold.take(facts, name=block.name)
    elif block.type == "tool_result" and block.id in calls:
        fold.take(facts, said=adapted(calls.pop(block.id), block, "\n".join(raw_texts(block))))
    else:
        fold.take(facts)
