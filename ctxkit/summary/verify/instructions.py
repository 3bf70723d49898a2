"""Whose wish it is: an instruction that a tool's result said first is marked as that tool's report."""

import re
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from ctxkit.summary.verify.sentences import sentences_of
from ctxkit.summary.verify.sources import Sources

REPORTED: Final = "[reported by tool {tool}, nobody's instruction] "
"""Stands before an instruction that came from a tool's result."""

_LEAST_WORDS: Final = 5
_MOST_SENTENCES: Final = 60
_RUN: Final = 4
"""Words in a row that are compared."""
_NEAR_VERBATIM: Final = 0.6
"""Share of a sentence's runs of words that a text must have, to count as having said it."""
_MOST_TOOL_CHARS: Final = 40

_WORD: Final = re.compile(r"[^\W_]+")
_IMPERATIVE: Final = re.compile(
    r"""(?:(?:important|note|attention|warning|system|admin(?:istrator)?|urgent|new\ instructions?|instructions?)\W+)*
      (?:please\s+|now\s+|also\s+|then\s+|first\s+|next\s+|immediately\s+|you\s+(?:must|should|shall|need\s+to|have\s+to|are\s+(?:now|to|required))\b
        |(?:the\s+)?(?:user|assistant|agent|ai|model|customer|system)\s+(?:must|should|shall|wants?|asks?|asked|needs?|requires?|is\s+(?:to|required))\b
        |do\s+not|don['\u2019]?t|never|always|must|make\s+sure|be\s+sure|under\s+no|from\s+now\s+on
        |(?:accept|add|append|apply|approve|authorize|avoid|book|buy|bypass|call|cancel|change|check|clear|click|commit|connect|contact|copy
          |create|curl|delete|deploy|disable|discard|disclose|disregard|do|download|drop|email|e-mail|enable|ensure|enter|erase|execute|export
          |fetch|follow|forget|forward|give|go|grant|hide|ignore|include|inform|install|invoke|keep|leak|leave|let|list|mail|merge|modify
          |move|navigate|notify|obey|open|output|override|overwrite|paste|pay|perform|post|prefer|proceed|provide|publish|pull|push|put|query
          |read|rebase|refund|reject|release|remember|remove|rename|repeat|replace|reply|report|request|require|reset|respond|restart|reveal
          |revoke|rewrite|run|save|say|search|send|set|share|show|shut|sign|skip|start|stop|store|submit|switch|tell|text|transfer|treat|trust
          |turn|uninstall|update|upload|use|verify|visit|wipe|wire|write)\b)""",
    re.VERBOSE | re.IGNORECASE,
)
_ATTRIBUTED: Final = re.compile(
    r"\b(?:reported|says|said|according|claims?|claimed|quotes?|quoted|suggests?|untrusted|injected|injection)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class _Suspect:
    """A sentence that tells somebody to do something, and the runs of words by which it is known."""

    start: int
    runs: tuple[str, ...]
    tells: tuple[str, ...]
    """The longest word of each run: a text that has too few of them need not be cut into words."""

    def may_stand_in(self, text: str) -> bool:
        """Return whether a text in lower case may have said the sentence; true wherever `stands_in` is."""
        return sum(word in text for word in self.tells) >= _NEAR_VERBATIM * len(self.runs)

    def stands_in(self, words: str) -> bool:
        """Return whether the words of a text, blanks between and around them, say the sentence."""
        return sum(run in words for run in self.runs) >= _NEAR_VERBATIM * len(self.runs)


async def with_reports(text: str, sources: Sources) -> tuple[str, list[str]]:
    """Return a text in which instructions that tools said first are marked as their reports, and the marked sentences.

    What a user, the system or the assistant said before the tool is theirs and left alone.

    Args:
        text: One field of a summary.
        sources: Who said what, oldest first.
    """
    suspects = _suspects(text)
    tools: dict[int, str] = {}
    async with aclosing(sources.pieces()) as pieces:
        async for piece, tool in pieces:
            if not suspects:
                break
            likely = [suspect for suspect in suspects if suspect.may_stand_in(piece)]
            said = f" {' '.join(_WORD.findall(piece))} " if likely else ""
            for suspect in likely:
                if suspect.stands_in(said):
                    suspects.remove(suspect)
                    if tool:
                        tools[suspect.start] = tool
    reported = []
    for start in sorted(tools, reverse=True):
        stop = next(stop for begin, stop in sentences_of(text) if begin == start)
        reported.append(text[start:stop])
        text = f"{text[:start]}{REPORTED.format(tool=_tool_name(tools[start]))}{text[start:]}"
    return text, reported[::-1]


def _suspects(text: str) -> list[_Suspect]:
    found = []
    for start, stop in sentences_of(text):
        sentence = text[start:stop]
        words = _WORD.findall(sentence.lower())
        if (
            len(words) >= _LEAST_WORDS
            and _IMPERATIVE.match(sentence.lstrip("*_`\"'"))
            and not _ATTRIBUTED.search(sentence)
        ):
            runs = _runs(words)
            found.append(_Suspect(start=start, runs=runs, tells=tuple(max(run.split(), key=len) for run in runs)))
            if len(found) == _MOST_SENTENCES:
                break
    return found


def _runs(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(f" {' '.join(words[at : at + _RUN])} " for at in range(len(words) - _RUN + 1))


def _tool_name(name: str) -> str:
    """Return a tool's name without what could pass for more than a name."""
    return re.sub(r"[^\w.\-]", "_", name)[:_MOST_TOOL_CHARS] or "unknown"
