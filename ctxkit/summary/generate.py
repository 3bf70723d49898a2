"""Makes the draft of a summary: by extending the last request, by structured output, in stages, or without a model."""

import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from ctxkit.config import SummaryConfig
from ctxkit.errors import SummaryError
from ctxkit.ledger import Count, Ledger
from ctxkit.offload.redact import Redactor, redact_json, redact_messages, redact_text
from ctxkit.plan import Checked, Draft
from ctxkit.port import Codec, ModelPort, Request
from ctxkit.summary import prompt as texts
from ctxkit.summary.asking import Asker
from ctxkit.summary.extractive import Excerpt, extract_fields
from ctxkit.summary.staged import Stages
from ctxkit.summary.stages import units_of, with_left_out, without_oversized
from ctxkit.summary.verify.checker import Checker

if TYPE_CHECKING:
    from agentscope.message import Msg

Origin = Literal["warm", "structured", "staged", "extractive"]

_REFUSALS: Final = 2
"""Answers that fail the check before code makes the summary."""

_MARGIN_TOKENS: Final = 64
"""For the framing of the messages that are appended."""

_WINDOW_SHARE: Final = 0.85
"""Of the window that a request which was only estimated may fill: a prior is up to a sixth off before it is calibrated."""

_WINDOW_PARTS: Final = 8
"""A summary has at most this part of the window, and no more tokens than what it stands for."""

_LEAST_SUMMARY_TOKENS: Final = 200
_LEAST_CHUNK_TOKENS: Final = 200
_OVERSIZED_SHARE: Final = 0.5
"""Of what one call may take, as in OpenClaw: what is larger is left out where nothing else helps."""
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
    context: "Sequence[Msg]" = ()
    """All that the model sees, those messages among it: what a summary is checked against. Empty where nothing else is."""
    pins: Sequence[str] = ()
    """What somebody wants kept for ever."""


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
        checker = self._checker(material, limit) if self._config.verify else None
        code = self._nonce()[:_CODE_CHARS]
        run = _Run(asker=asker, material=material, task=task, max_tokens=limit, code=code, checker=checker)
        if await self._fits_warm(run) and (fields := await self._warm(run)) is not None:
            return await self._draft_of(run, fields, "warm")
        run = replace(run, material=await self._clean(material))
        fits = not run.is_given_up and await self._fits_cold(run, tokens)
        if fits and (fields := await self._structured(run)) is not None:
            return await self._draft_of(run, fields, "structured")
        if not run.is_given_up and (fields := await self._staged(run, fits=fits)) is not None:
            return await self._draft_of(run, fields, "staged")
        clean = run.material
        excerpt = await Excerpt.of(clean.messages, ledger=clean.ledger, previous=clean.previous)
        fields = await extract_fields(excerpt, self._schema, max_tokens=limit, count=self._count)
        return await self._draft_of(run, fields, "extractive")

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

    def _checker(self, material: Material, max_tokens: int) -> Checker:
        return Checker(
            material.messages,
            context=material.context,
            ledger=material.ledger,
            previous=material.previous,
            pins=material.pins,
            schema=self._schema,
            max_tokens=max_tokens,
            count=self._count,
        )

    async def _draft_of(self, run: "_Run", fields: Mapping[str, Any], origin: Origin) -> Draft:
        """Return the draft, without the secrets that a model or the record may repeat."""
        if origin == "extractive" and run.checker is not None:
            complete = await run.checker.accept(fields)
            fields = fields if isinstance(complete, str) else complete
        found = None if run.checker is None else run.checker.found
        return Draft(
            fields=await self._redacted(fields),
            origin=origin,
            usage=run.asker.usage,
            failures=tuple([await self._redacted_text(line) for line in run.asker.failures]),
            checked=None if found is None else Checked.from_json(await self._redacted(found.to_json())),
        )

    async def _redacted_text(self, text: str) -> str:
        return text if self._redactor is None else await redact_text(text, self._redactor)

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
        choice, options = run.material.tool_choice, request.options

        async def ask(messages: "Sequence[Msg]") -> Mapping[str, Any] | None:
            return await run.asker.ask(messages, request.tools, tool_choice=choice, options=options)

        return await self._accepted(run, [*request.messages, self._codec.user_message(self._instruction(run))], ask)

    async def _structured(self, run: "_Run") -> Mapping[str, Any] | None:
        return await self._accepted(run, self._cold(run), run.asker.ask_structured)

    async def _accepted(
        self,
        run: "_Run",
        messages: "Sequence[Msg]",
        ask: "Callable[[Sequence[Msg]], Awaitable[Mapping[str, Any] | None]]",
    ) -> Mapping[str, Any] | None:
        """Return the answer that passes the check; one that fails is asked for once more, with what is wrong with it."""
        fields = await ask(messages)
        if fields is None or run.checker is None:
            return fields
        found = await run.checker.accept(fields)
        if not isinstance(found, str):
            return found
        run.asker.failures.append(found)
        said = self._codec.assistant_message(
            [self._codec.text(json.dumps(fields, ensure_ascii=False))], name="assistant"
        )
        wanted = self._codec.user_message(texts.repair_text(found, self._schema))
        return await self._taken(run, await ask([*messages, said, wanted]))

    async def _taken(self, run: "_Run", fields: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return fields that pass the check, or None."""
        if fields is None or run.checker is None:
            return fields
        found = await run.checker.accept(fields)
        if isinstance(found, str):
            run.asker.failures.append(found)
            return None
        return found

    def _instruction(self, run: "_Run") -> str:
        return f"{run.task}\n\n{texts.answer_text(self._schema, max_tokens=run.max_tokens)}"

    async def _fits_cold(self, run: "_Run", tokens: int) -> bool:
        given = f"{self._instruction(run)}\n{run.material.previous}{texts.UNTRUSTED if run.material.previous else ''}"
        overhead = await self._count(given) + _MARGIN_TOKENS
        return tokens + overhead + run.max_tokens <= self._model.context_size * _WINDOW_SHARE

    def _cold(self, run: "_Run") -> "list[Msg]":
        """Return the request for the host's structured output, as the host itself would build it."""
        material = run.material
        fence = f"{texts.PREVIOUS}\n{texts.fenced(material.previous, self._nonce())}"
        before = [self._codec.user_message(fence)] if material.previous else []
        return [*before, *material.messages, self._codec.user_message(run.task)]

    async def _tokens_of(self, messages: "Sequence[Msg]") -> int:
        return sum([await self._count(unit.text) for unit in units_of(messages)])

    async def _staged(self, run: "_Run", *, fits: bool) -> Mapping[str, Any] | None:
        """Return a summary merged from summaries of parts, without what is oversized where it fails with it, or None."""
        window = int(self._model.context_size * _WINDOW_SHARE) - run.max_tokens
        overhead = await self._count(self._instruction(run) + texts.CHUNK + texts.UNTRUSTED) + _MARGIN_TOKENS
        stages = Stages(
            asker=run.asker,
            codec=self._codec,
            schema=self._schema,
            instruction=self._instruction(run),
            max_tokens=run.max_tokens,
            limit_tokens=max(_LEAST_CHUNK_TOKENS, window - overhead),
            count=self._count,
            nonce=self._nonce,
            code=run.code,
        )
        units = list(units_of(run.material.messages, run.code))
        fields = None
        if not fits or run.asker.has_overflowed:
            fields = await stages.summarise(units, previous=run.material.previous)
        if fields is None:
            small = await without_oversized(units, stages.limit_tokens * _OVERSIZED_SHARE, self._count)
            fields = await stages.summarise(small, previous=run.material.previous) if small else None
            if fields is not None and small:
                fields = with_left_out(fields, small)
        if fields is None or run.checker is None:
            return fields
        found = await run.checker.accept(fields)
        if not isinstance(found, str):
            return found
        run.asker.failures.append(found)
        return await self._taken(run, await stages.again(fields, found))


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One draft in the making."""

    asker: Asker
    material: Material
    task: str
    max_tokens: int
    code: str
    """Stands in the lines that say who speaks, so that no text can imitate one."""

    checker: Checker | None
    """Checks each answer; None where the config turns that off."""

    @property
    def is_given_up(self) -> bool:
        """Whether two answers were refused: a third would be as wrong."""
        return self.checker is not None and self.checker.refused >= _REFUSALS
