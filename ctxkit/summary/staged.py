"""A summary in stages, of what no single call can take: parts are summarised one by one and merged."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ctxkit.ledger import Count, Ledger, clipped, scan_text
from ctxkit.port import Codec
from ctxkit.schema import SUMMARY_FIELDS
from ctxkit.summary import prompt as texts
from ctxkit.summary.answer import is_blank
from ctxkit.summary.asking import Asker
from ctxkit.summary.extractive import Excerpt, extract_fields
from ctxkit.summary.stages import Chunk, Unit, chunks_of

if TYPE_CHECKING:
    from agentscope.message import Msg

_FAILED_CHUNKS: Final = 2
"""After so many failed chunks in a row the rest is collected without a model."""

_SMALLEST_HALF_CHARS: Final = 2000
_LEAST_CHARS: Final = 40


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Summarises parts one by one and merges what comes of them.

    A chunk that the provider finds too large is halved; of a chunk without a summary, code collects an excerpt.
    """

    asker: Asker
    codec: Codec
    schema: Mapping[str, Any]
    instruction: str
    """What the model is told before each record."""
    max_tokens: int
    """Most tokens of a summary."""
    limit_tokens: int
    """Most tokens of what one call summarises."""
    count: Count
    nonce: Callable[[], str]
    code: str
    """Stands in the lines that say who speaks, so that no text can imitate one."""

    async def summarise(self, units: Sequence[Unit], *, previous: str) -> Mapping[str, Any] | None:
        """Return a summary merged from summaries of parts, or None where no part had one.

        Args:
            units: What is summarised, oldest first.
            previous: The summary before this one, which is merged as one more part.
        """
        chunks = await chunks_of(units, limit_tokens=self.limit_tokens, count=self.count)
        partials: list[Mapping[str, Any]] = []
        failed = written = 0
        for number, chunk in enumerate(chunks, start=1):
            place = texts.CHUNK.format(number=number, total=len(chunks))
            found = await self._chunk(chunk, place) if failed < _FAILED_CHUNKS else None
            failed = 0 if found else failed + 1
            written += bool(found)
            partials.extend(found or [await self._extracted(chunk)])
        if not written:
            return None
        return await self._merged([*self._previous(previous), *partials])

    async def again(self, fields: Mapping[str, Any], reason: str) -> Mapping[str, Any] | None:
        """Return a better summary than the one that was refused for a reason, or None."""
        place = texts.repair_text(reason, self.schema)
        return await self.asker.ask([self._record_message(place, _json_text(fields))])

    def _previous(self, previous: str) -> list[Mapping[str, Any]]:
        """Return the summary before this one as one more partial summary, under a field that the schema has."""
        names = list(self.schema.get("properties") or SUMMARY_FIELDS)
        name = "context_to_preserve" if "context_to_preserve" in names else names[0]
        return [{name: f"{texts.PREVIOUS}\n{previous}"}] if previous else []

    async def _chunk(self, chunk: Chunk, place: str) -> list[Mapping[str, Any]]:
        """Return the summary of a chunk, of its halves where the provider finds it too large, or nothing."""
        self.asker.has_overflowed = False
        fields = await self.asker.ask([self._record_message(place, chunk.text)])
        if fields is not None:
            return [fields]
        if not self.asker.has_overflowed or len(chunk.text) < _SMALLEST_HALF_CHARS:
            return []
        first, second = chunk.halves()
        found = await self._chunk(first, place)
        if not found:  # not even its smallest part: this provider refuses whatever it is asked
            return []
        return [*found, *(await self._chunk(second, place) or [await self._extracted(second)])]

    def _record_message(self, place: str, record: str) -> "Msg":
        fence = texts.fenced(record, self.nonce(), code=self.code)
        return self.codec.user_message(f"{self.instruction}\n\n{place}\n{fence}")

    async def _extracted(self, chunk: Chunk) -> Mapping[str, Any]:
        facts = await scan_text(chunk.text, "environment")
        excerpt = Excerpt(requests=chunk.requests, replies=chunk.replies, ledger=Ledger().add(facts))
        return await extract_fields(excerpt, self.schema, max_tokens=self.max_tokens, count=self.count)

    async def _merged(self, partials: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return one summary for several, merged group by group where not all fit one call."""
        while len(partials) > 1:
            groups = await self._groups(partials)
            partials = [await self._merged_once(group) if len(group) > 1 else group[0] for group in groups]
        return partials[0]

    async def _groups(self, partials: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
        """Gather partial summaries into groups that fit one call, at least two each, so that merging comes to an end."""
        groups: list[list[Mapping[str, Any]]] = [[]]
        taken = 0
        for partial in partials:
            tokens = await self.count(_json_text(partial))
            if len(groups[-1]) > 1 and taken + tokens > self.limit_tokens:
                groups.append([])
                taken = 0
            groups[-1].append(partial)
            taken += tokens
        return groups

    async def _merged_once(self, group: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        record = "\n".join(_json_text(partial) for partial in group)
        fields = await self.asker.ask([self._record_message(texts.MERGE.format(total=len(group)), record)])
        return fields if fields is not None else await self._merged_by_code(group)

    async def _merged_by_code(self, group: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the fields of all partial summaries one after the other, each shortened alike until they fit."""
        each_chars = 4 * self.max_tokens // len(group)
        while True:
            merged = {name: _joined(name, value, group, each_chars) for name, value in group[-1].items()}
            if await self.count(_json_text(merged)) <= self.max_tokens or each_chars < _LEAST_CHARS:
                return merged
            each_chars = each_chars * 3 // 4


def _joined(name: str, value: object, partials: Sequence[Mapping[str, Any]], each_chars: int) -> object:
    """Return what the partial summaries say in one field; of what is no text, the newest holds."""
    if not isinstance(value, str):
        return value
    said = [text for partial in partials if isinstance(text := partial.get(name), str) and not is_blank(text)]
    return "\n".join(dict.fromkeys(clipped(text, each_chars) for text in said)) or value


def _json_text(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False)
