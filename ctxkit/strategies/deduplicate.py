"""Clear a tool result that came again later: the same text, a newer read of the same file, or what was written over it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ctxkit.ledger.calls import call_of
from ctxkit.strategies.cleared import called, clear_edit, superseded_text
from ctxkit.strategies.settled import is_shortened, settled, text_of_result

if TYPE_CHECKING:
    from agentscope.message import ToolCallBlock

    from ctxkit.ledger.calls import Call
    from ctxkit.plan import Edit
    from ctxkit.strategies._base import Situation
    from ctxkit.strategies.settled import Settled

_FAILED: Final = frozenset({"error", "denied", "interrupted"})
_LEAST_CHARS: Final = 200
"""Shorter results are about as long as the line that would stand in their place."""


@dataclass(frozen=True, kw_only=True)
class DeduplicateStrategy:
    """Clears what the context holds twice, and reads of a file that are out of date.

    The newest of equals stays. A file that was edited is not one that was written anew: the read before the edit is the
    only copy of the rest of it, and stays.
    """

    name: str = field(default="deduplicate", init=False)

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        """Return one edit for each result that a later one makes needless."""
        later = _Later()
        edits = []
        for one in reversed(settled(situation, unseen=True)):
            text = text_of_result(one.result)
            told = call_of(one.call.name, one.call.input)
            if text is not None and len(text) >= _LEAST_CHARS and (why := later.makes_needless(one, text, told)):
                edit = clear_edit(situation, one, superseded_text(one.call, why), rule=self.name)
                edits += [] if edit is None else [edit]
            if one.result.state not in _FAILED:
                later.saw(one, text, told)
        return tuple(reversed(edits))


@dataclass
class _Later:
    """What is known of the calls behind a place, walking backwards."""

    texts: dict[tuple[str, str], ToolCallBlock] = field(default_factory=dict)
    """The calls by tool and text of their result."""
    reads: dict[tuple[str, str], ToolCallBlock] = field(default_factory=dict)
    """Those that read a file, by tool and arguments."""
    wholes: dict[tuple[str, str], tuple[ToolCallBlock, frozenset[str]]] = field(default_factory=dict)
    """Those that were given a path and nothing else, by tool and path, with the lines that they read."""
    written: dict[str, ToolCallBlock] = field(default_factory=dict)
    """Those that wrote a file anew or deleted it, by its path."""

    def makes_needless(self, one: Settled, text: str, told: Call) -> str:
        """Return in words why a result is needless, or nothing where it is not."""
        same = self.texts.get((one.call.name, text))
        if same is not None:
            return f"which came again, word for word, from a later {called(same)}"
        path = _file_read(told)
        if path is None:
            return ""
        newer = self.reads.get((one.call.name, one.call.input))
        whole = self.wholes.get((one.call.name, path))
        if newer is None and whole is not None and whole[1].issuperset(_ends(text)):
            newer = whole[0]
        if newer is not None:
            return f"which a later {called(newer)} has read again"
        return f"which a later {called(self.written[path])} has replaced" if path in self.written else ""

    def saw(self, one: Settled, text: str | None, told: Call) -> None:
        """Take note of a call that went well."""
        if text is not None:
            self.texts.setdefault((one.call.name, text), one.call)
        path = _file_read(told)
        if path is not None and not is_shortened(one.result):
            self.reads.setdefault((one.call.name, one.call.input), one.call)
            if text is not None and told.text == path:
                self.wholes.setdefault((one.call.name, path), (one.call, frozenset(text.splitlines())))
        if told.command is None:
            for path, operation in told.files:
                if operation in {"created", "deleted"}:
                    self.written.setdefault(path, one.call)


def _file_read(told: Call) -> str | None:
    """Return the one file that a call does nothing but read."""
    return told.files[0][0] if len(told.files) == 1 and told.files[0][1] == "read" else None


def _ends(text: str) -> set[str]:
    """Return the first and the last line of a text that has any words."""
    lines = [line for line in text.splitlines() if line.strip()]
    return {lines[0], lines[-1]} if lines else {text}
