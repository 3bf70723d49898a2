"""What stands for a search in what the stock agent stored, for it has no tool of the kind: BM25 over chunks."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from benchmarks._recordings import identifiers, words

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_CHUNK_CHARS, _STEP_CHARS, _TOP = 800, 700, 3
_K1, _B = 1.2, 0.75


class StoredFiles:
    """The files that AgentScope's `LocalWorkspace` wrote, as somebody would read them.

    Args:
        folder: The workspace.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stamp: object = None
        self._index = _Index(())

    def text(self) -> str:
        """Return all that is stored."""
        return "\n".join(_readable(path) for path in self._files())

    def top(self, query: set[str]) -> str:
        """Return the three best chunks for a query."""
        stamp = [(str(path), path.stat().st_size) for path in self._files()]
        if stamp != self._stamp:
            self._stamp, self._index = stamp, _Index(_readable(path) for path in self._files())
        return self._index.top(query)

    def _files(self) -> list[Path]:
        return sorted(path for path in (self._folder / "sessions").rglob("*") if path.is_file())


class _Index:
    def __init__(self, texts: Iterable[str]) -> None:
        self._chunks = [text[at : at + _CHUNK_CHARS] for text in texts for at in range(0, len(text), _STEP_CHARS)]
        self._counts = [Counter([*words(c), *(name.lower() for name in identifiers(c))]) for c in self._chunks]
        self._sizes = [counts.total() for counts in self._counts]
        self._average = sum(self._sizes) / max(1, len(self._sizes)) or 1
        self._holders: dict[str, list[int]] = defaultdict(list)
        for number, counts in enumerate(self._counts):
            for word in counts:
                self._holders[word].append(number)

    def top(self, query: set[str]) -> str:
        scores: Counter[int] = Counter()
        for word in query:
            holders = self._holders.get(word, [])
            if not holders or len(holders) > 0.3 * len(self._chunks) + 3:
                continue
            rarity = math.log(1 + (len(self._chunks) - len(holders) + 0.5) / (len(holders) + 0.5))
            for number in holders:
                count = self._counts[number][word]
                norm = _K1 * (1 - _B + _B * self._sizes[number] / self._average)
                scores[number] += rarity * count * (_K1 + 1) / (count + norm)  # type: ignore[assignment]  # a Counter of floats
        return "\n".join(self._chunks[number] for number, _ in scores.most_common(_TOP))


def _readable(path: Path) -> str:
    text = path.read_bytes().decode("utf-8", "replace")
    if path.suffix != ".jsonl":
        return text
    return "\n".join(_block_text(b) for line in text.splitlines() if line.strip() for b in json.loads(line)["content"])


def _block_text(block: dict[str, Any] | str) -> str:
    if isinstance(block, str):
        return block
    said = block.get("text") or block.get("output") or block.get("input") or ""
    if isinstance(said, list):
        said = "\n".join(piece.get("text", "") for piece in said)
    return f"{block.get('name') or ''} {said}"
