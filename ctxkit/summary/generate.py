"""Makes the draft of a summary: by extending the last request, by structured output, in stages, or without a model."""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from ctxkit.config import SummaryConfig
from ctxkit.errors import SummaryError
from ctxkit.ledger import Count, Ledger, clipped, scan_text
from ctxkit.offload.redact import Redactor, redact_json, redact_messages, redact_text
from ctxkit.plan import Draft
from ctxkit.port import Codec, ModelPort, Request
from ctxkit.schema import SUMMARY_FIELDS
from ctxkit.summary import prompt as texts
from ctxkit.summary.answer import is_blank
from ctxkit.summary.asking import Asker
from ctxkit.summary.extractive import Excerpt, extract_fields
from ctxkit.summary.stages import Chunk, chunks_of, units_of

if TYPE_CHECKING:
    from agentscope.message import Msg

_MARGIN_TOKENS: Final = 64
"""For the framing of the messages that are appended."""

_WINDOW_SHARE: Final = 0.85
"""Of the window that a request which was only estimated may fill: a prior is up to a sixth off before it is calibrated."""

_WINDOW_PARTS: Final = 8
"""A summary has at most this part of the window, and no more tokens than what it stands for."""

_LEAST_SUMMARY_TOKENS: Final = 200
_LEAST_CHUNK_TOKENS: Final = 200
_FAILED_CHUNKS: Final = 2
"""After so many failed chunks in a row the rest is collected without a model."""

_SMALLEST_HALF_CHARS: Final = 2000
_LEAST_CHARS: Final = 40
_CODE_CHARS: Final = 6
"""Of the code at each speaker: short, for it is paid for often, and still nothing that a text could hit at once."""


@dataclass(frozen=True, kw_only=True)
class Material:
    """What a summary is made of."""

    messages: "Sequence[Msg]"
    """What is to be compressed, oldest first."""
    request: Request | None = None
    """The last request sent, which holds those messages; a warm call extends it. `None` where there was none."""
    tool_choice: object | None = None
    """The tool choice of that request: changing it would empty some providers' cache."""
    room_tokens: int | None = None
    """Tokens that the window leaves behind that request for instruction and answer; `None` where unknown: not warm."""
    tokens: int | None = None
    """Tokens of the messages; a summary must be smaller. Counted where it is `None`."""
    previous: str = ""
    """The summary before this one, as the model sees it."""
    instructions: str | None = None
    """What the summary must look after, in the user's words."""
    ledger: Ledger = field(default_factory=Ledger)
    """Facts of what was compressed before."""


class Summarizer:
    """Makes summaries with one model, or without one where it fails.

    Args:
        model: The model that writes the summary.
        codec: Builds the host's messages.
        schema: The JSON schema of the summary's fields.
        prompt: What the model is told; `{current_time}` is filled in.
        config: Deadline, retries, most tokens, and whether to extend the last request.
        count: Returns the tokens of a text.
        redactor: Returns a text without secrets, for all that is sent but the warm request, which the same provider has
            seen, and for what comes of it; `None` for nothing.
        now: Returns the current time as text.
        nonce: Returns a new code that nobody can guess, for the fence round untrusted text.
    """

    def __init__(
        self,
        model: ModelPort,
        codec: Codec,
        *,
        schema: Mapping[str, Any],
        prompt: str,
        config: SummaryConfig,
        count: Count,
        redactor: Redactor | None = None,
        now: Callable[[], str] = texts.now_text,
        nonce: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self._model = model
        self._codec = codec
        self._schema = schema
        self._prompt = prompt
        self._config = config
        self._count = count
        self._redactor = redactor
        self._now = now
        self._nonce = nonce

    async def draft(self, material: Material) -> Draft:
        """Return a summary of the messages; never fails, for without a model it is collected by code.

        Cancellation leaves at once and stops the call that runs; nothing is changed.

        Args:
            material: What to summarise.

        Returns:
            The draft; its origin says how it was made, its failures what went wrong on the way.
        """
        tokens = material.tokens if material.tokens is not None else await self._tokens_of(material.messages)
        most = min(tokens, self._model.context_size // _WINDOW_PARTS)
        limit = min(self._config.max_tokens, max(most, _LEAST_SUMMARY_TOKENS))
        asker = Asker(
            self._model, self._codec, schema=self._schema, config=self._config, max_tokens=limit, count=self._count
        )
        task = texts.task_text(self._prompt, current_time=self._now(), instructions=material.instructions)
        run = _Run(asker=asker, material=material, task=task, max_tokens=limit, code=self._nonce()[:_CODE_CHARS])
        if await self._fits_warm(run) and (fields := await self._warm(run)) is not None:
            return run.draft(await self._redacted(fields), "warm")
        run = replace(run, material=await self._clean(material))
        fits = await self._fits_cold(run, tokens)
        if fits and (fields := await asker.ask_structured(self._cold(run))) is not None:
            return run.draft(await self._redacted(fields), "structured")
        if (not fits or asker.has_overflowed) and (fields := await self._staged(run)) is not None:
            return run.draft(await self._redacted(fields), "staged")
        clean = run.material
        excerpt = await Excerpt.of(clean.messages, ledger=clean.ledger, previous=clean.previous)
        fields = await extract_fields(excerpt, self._schema, max_tokens=limit, count=self._count)
        return run.draft(await self._redacted(fields), "extractive")

    async def summarize(
        self, messages: "Sequence[Msg]", *, previous: str = "", instructions: str | None = None
    ) -> Mapping[str, Any]:
        """Return the fields of a summary of some messages, written by the model.

        Args:
            messages: What to summarise, oldest first, of any size.
            previous: The summary before this one.
            instructions: What the summary must look after.

        Raises:
            SummaryError: The model gave no valid summary.
        """
        draft = await self.draft(Material(messages=messages, previous=previous, instructions=instructions))
        if draft.origin == "extractive":
            why = "; ".join(draft.failures) or "it gave no answer"
            msg = f"Model {self._model.key!r} gave no valid summary ({why}); try again or take another model."
            raise SummaryError(msg)
        return draft.fields

    async def _clean(self, material: Material) -> Material:
        """Return the material without secrets; the request for a warm call stays as it is."""
        if self._redactor is None:
            return material
        return replace(
            material,
            messages=await redact_messages(material.messages, self._redactor, self._codec),
            previous=await redact_text(material.previous, self._redactor),
        )

    async def _redacted(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return fields without secrets: a model may repeat those that it has seen in the request."""
        if self._redactor is None:
            return fields
        clean: Mapping[str, Any] = await redact_json(dict(fields), self._redactor)
        return clean

    async def _fits_warm(self, run: "_Run") -> bool:
        material = run.material
        if not self._config.warm or material.request is None or material.room_tokens is None:
            return False
        needed = await self._count(self._instruction(run)) + run.max_tokens + _MARGIN_TOKENS
        return needed <= material.room_tokens

    async def _warm(self, run: "_Run") -> Mapping[str, Any] | None:
        request = run.material.request
        if request is None:
            return None
        messages = [*request.messages, self._codec.user_message(self._instruction(run))]
        return await run.asker.ask(
            messages, request.tools, tool_choice=run.material.tool_choice, options=request.options
        )

    def _instruction(self, run: "_Run") -> str:
        return f"{run.task}\n\n{texts.answer_text(self._schema, max_tokens=run.max_tokens)}"

    async def _fits_cold(self, run: "_Run", tokens: int) -> bool:
        overhead = await self._count(f"{self._instruction(run)}\n{run.material.previous}") + _MARGIN_TOKENS
        return tokens + overhead + run.max_tokens <= self._model.context_size * _WINDOW_SHARE

    def _cold(self, run: "_Run") -> "list[Msg]":
        """Return the request for the host's structured output, as the host itself would build it."""
        material = run.material
        before = [self._codec.user_message(f"{texts.PREVIOUS}\n{material.previous}")] if material.previous else []
        return [*before, *material.messages, self._codec.user_message(run.task)]

    async def _tokens_of(self, messages: "Sequence[Msg]") -> int:
        return sum([await self._count(unit.text) for unit in units_of(messages)])

    async def _staged(self, run: "_Run") -> Mapping[str, Any] | None:
        """Return a summary merged from summaries of parts, or None where no part had one."""
        window = int(self._model.context_size * _WINDOW_SHARE) - run.max_tokens
        overhead = await self._count(self._instruction(run) + texts.CHUNK + texts.UNTRUSTED) + _MARGIN_TOKENS
        limit = max(_LEAST_CHUNK_TOKENS, window - overhead)
        chunks = await chunks_of(list(units_of(run.material.messages, run.code)), limit_tokens=limit, count=self._count)
        partials: list[Mapping[str, Any]] = []
        failed = written = 0
        for number, chunk in enumerate(chunks, start=1):
            place = texts.CHUNK.format(number=number, total=len(chunks))
            found = await self._chunk(run, chunk, place) if failed < _FAILED_CHUNKS else None
            failed = 0 if found else failed + 1
            written += bool(found)
            partials.extend(found or [await self._extracted(run, chunk)])
        if not written:
            return None
        return await self._merged(run, [*self._previous(run), *partials], limit)

    def _previous(self, run: "_Run") -> list[Mapping[str, Any]]:
        """Return the summary before this one as one more partial summary, under a field that the schema has."""
        names = list(self._schema.get("properties") or SUMMARY_FIELDS)
        name = "context_to_preserve" if "context_to_preserve" in names else names[0]
        return [{name: f"{texts.PREVIOUS}\n{run.material.previous}"}] if run.material.previous else []

    async def _chunk(self, run: "_Run", chunk: Chunk, place: str) -> list[Mapping[str, Any]]:
        """Return the summary of a chunk, of its halves where the provider finds it too large, or nothing."""
        run.asker.has_overflowed = False
        fields = await run.asker.ask([self._record_message(run, place, chunk.text)])
        if fields is not None:
            return [fields]
        if not run.asker.has_overflowed or len(chunk.text) < _SMALLEST_HALF_CHARS:
            return []
        first, second = chunk.halves()
        found = await self._chunk(run, first, place)
        if not found:  # not even its smallest part: this provider refuses whatever it is asked
            return []
        return [*found, *(await self._chunk(run, second, place) or [await self._extracted(run, second)])]

    def _record_message(self, run: "_Run", place: str, record: str) -> "Msg":
        return self._codec.user_message(
            f"{self._instruction(run)}\n\n{place}\n{texts.fenced(record, self._nonce(), code=run.code)}"
        )

    async def _extracted(self, run: "_Run", chunk: Chunk) -> Mapping[str, Any]:
        facts = await scan_text(chunk.text, "environment")
        excerpt = Excerpt(requests=chunk.requests, replies=chunk.replies, ledger=Ledger().add(facts))
        return await extract_fields(excerpt, self._schema, max_tokens=run.max_tokens, count=self._count)

    async def _merged(self, run: "_Run", partials: Sequence[Mapping[str, Any]], limit_tokens: int) -> Mapping[str, Any]:
        """Return one summary for several, merged group by group where not all fit one call."""
        while len(partials) > 1:
            groups = await self._groups(partials, limit_tokens)
            partials = [await self._merged_once(run, group) if len(group) > 1 else group[0] for group in groups]
        return partials[0]

    async def _groups(self, partials: Sequence[Mapping[str, Any]], limit_tokens: int) -> list[list[Mapping[str, Any]]]:
        """Gather partial summaries into groups that fit one call, at least two each, so that merging comes to an end."""
        groups: list[list[Mapping[str, Any]]] = [[]]
        taken = 0
        for partial in partials:
            tokens = await self._count(_json_text(partial))
            if len(groups[-1]) > 1 and taken + tokens > limit_tokens:
                groups.append([])
                taken = 0
            groups[-1].append(partial)
            taken += tokens
        return groups

    async def _merged_once(self, run: "_Run", group: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        record = "\n".join(_json_text(partial) for partial in group)
        place = texts.MERGE.format(total=len(group))
        fields = await run.asker.ask([self._record_message(run, place, record)])
        return fields if fields is not None else await self._merged_by_code(run, group)

    async def _merged_by_code(self, run: "_Run", group: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the fields of all partial summaries one after the other, each shortened alike until they fit."""
        each_chars = 4 * run.max_tokens // len(group)
        while True:
            merged = {name: _joined(name, value, group, each_chars) for name, value in group[-1].items()}
            if await self._count(_json_text(merged)) <= run.max_tokens or each_chars < _LEAST_CHARS:
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


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One draft in the making."""

    asker: Asker
    material: Material
    task: str
    max_tokens: int
    code: str
    """Stands in the lines that say who speaks, so that no text can imitate one."""

    def draft(self, fields: Mapping[str, Any], origin: Literal["warm", "structured", "staged", "extractive"]) -> Draft:
        return Draft(fields=fields, origin=origin, usage=self.asker.usage, failures=tuple(self.asker.failures))
