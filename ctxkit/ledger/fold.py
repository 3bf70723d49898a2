"""The ledger: the facts of many blocks folded into one small record that never forgets by paraphrase."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ctxkit.ledger.adapters import adapted
from ctxkit.ledger.entries import Command, Failure, Job, Mention, Tested, Touch
from ctxkit.ledger.facts import Facts, Role, raw_texts, scan_block
from ctxkit.ledger.failing import Key
from ctxkit.ledger.folding import Fold
from ctxkit.ledger.ranking import BOILERPLATE_COUNT, BOILERPLATE_SHARE, best_first, scores
from ctxkit.ledger.saved import JSON_BYTES, ledger_json, parts_of_json

if TYPE_CHECKING:
    from agentscope.message import Msg

    from ctxkit.port import Block


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
        reader = Reader(self)
        for message in messages:
            for block in message.content:
                await reader.take(block, role=message.role)
        return await reader.ledger()

    def ranked(self, exclude: "frozenset[str] | set[str]" = frozenset()) -> list[str]:
        """Return the identifiers most likely to be needed again first; the order depends on the ledger only."""
        often = max(BOILERPLATE_COUNT, BOILERPLATE_SHARE * self.step)
        names = [name for name, one in self.identifiers.items() if one.blocks < often and name not in exclude]
        said = [self.identifiers[name] for name in names]
        blocks, used, newest = ([*map(attrgetter(part), said)] for part in ("blocks", "used", "newest"))
        return best_first(dict(zip(names, scores(names, blocks, used, newest, step=self.step), strict=True)))

    def to_json(self, limit_bytes: int = JSON_BYTES) -> dict[str, Any]:
        """Return plain JSON of at most about `limit_bytes` in UTF-8; what ranks lowest is left out.

        A half of it at most goes to what explains itself, whose newest stay, an eighth to lines; identifiers get the rest.
        """
        return ledger_json(self, limit_bytes)

    @classmethod
    def from_json(cls, data: object) -> "Ledger":
        """Return the ledger that `to_json` wrote; what cannot be read is left out, never refused."""
        return cls(**parts_of_json(data))


class Reader:
    """Reads blocks into a ledger, one after another, scanned with pauses for the event loop.

    Args:
        base: What is known already.
        names: Whether to count identifiers, which is most of the work; without, those of `base` stay.
    """

    def __init__(self, base: Ledger, *, names: bool = True) -> None:
        self._fold = Fold(base, names=names)
        self._calls: dict[str, Block] = {}

    async def take(self, block: "Block", *, role: Role) -> Facts:
        """Read one more block, and return its facts; of a result, with what the tool's adapter says of the call.

        Args:
            block: A block of AgentScope's.
            role: The role of the message that the block stands in.
        """
        facts = await scan_block(block, role=role)
        if block.type == "tool_call":
            self._calls[block.id] = block
            self._fold.take(facts, name=block.name)
        elif block.type == "tool_result" and block.id in self._calls:
            said = adapted(self._calls.pop(block.id), block, "\n".join(raw_texts(block)))
            self._fold.take(facts, said=said)
        else:
            self._fold.take(facts)
        return facts

    async def ledger(self) -> Ledger:
        """Return the ledger of all that was read."""
        steps = self._fold.finish()
        while True:
            try:
                next(steps)
            except StopIteration as done:
                ledger: Ledger = done.value
                return ledger
            await asyncio.sleep(0)
