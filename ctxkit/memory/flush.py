"""Writes what left a context down: one call of a model gives the diary's entry and the text to be injected, or code does."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ctxkit.config import SummaryConfig
from ctxkit.ledger import Count, Ledger
from ctxkit.memory import prompt
from ctxkit.offload.redact import Redactor, redact_messages, redact_text
from ctxkit.port import Codec, ModelPort, Usage
from ctxkit.schema import summary_json_schema
from ctxkit.summary.asking import Asker
from ctxkit.summary.extractive import Excerpt, extract_fields
from ctxkit.summary.prompt import UNTRUSTED, fenced
from ctxkit.summary.staged import Stages
from ctxkit.summary.stages import units_of

if TYPE_CHECKING:
    from agentscope.message import Msg

_WINDOW_SHARE: Final = 0.85
"""Of the window that a request which was only estimated may fill; as for a summary."""
_WINDOW_PARTS: Final = 8
"""The answer has at most this part of the window."""
_MARGIN_TOKENS: Final = 64
_LEAST_CHUNK_TOKENS: Final = 200
_CODE_CHARS: Final = 6


@dataclass(frozen=True, kw_only=True)
class Written:
    """What was written down."""

    daily: str
    """The diary's entry."""
    memory: str
    """What is to be injected."""
    is_extractive: bool
    """Whether no model has written it."""
    usage: Usage | None = None
    """What it cost."""
    failures: tuple[str, ...] = ()
    """What went wrong on the way."""


@dataclass(frozen=True, kw_only=True)
class MemoryWriter:
    """Writes with one model, or without one where it fails or answers nothing."""

    model: ModelPort | None
    """Who writes; `None` for code alone."""
    codec: Codec
    config: SummaryConfig
    """Deadline and retries."""
    max_tokens: int
    """Most tokens of both texts together."""
    count: Count
    redactor: Redactor | None = None
    """Returns a text without secrets, for what is sent and for what comes back; `None` for nothing."""
    nonce: Callable[[], str] = lambda: secrets.token_hex(8)

    async def write(self, messages: "Sequence[Msg]") -> Written:
        """Return what is to be kept of messages; never fails for what a model does.

        Cancellation leaves at once and stops the call that runs; nothing is changed.

        Args:
            messages: What left, oldest first.

        Raises:
            ConfigError: The redactor failed.
        """
        messages = await redact_messages(messages, self.redactor, self.codec)
        most = self.max_tokens
        asker = None
        fields: Mapping[str, Any] | None = None
        if self.model is not None:
            most = min(most, self.model.context_size // _WINDOW_PARTS)
            asker = Asker(
                self.model,
                self.codec,
                schema=prompt.SCHEMA,
                config=self.config,
                max_tokens=most,
                count=self.count,
                parse=prompt.parse_sections,
                repair=prompt.repair,
            )
            fields = await self._asked(asker, self.model, messages, most)
        is_extractive = fields is None
        if fields is None:
            fields = await self._collected(messages)
        return Written(
            daily=await self._clean(str(fields["daily"])),
            memory=await self._clean(str(fields["memory"])),
            is_extractive=is_extractive,
            usage=None if asker is None else asker.usage,
            failures=() if asker is None else tuple([await self._clean(line) for line in asker.failures]),
        )

    async def _asked(
        self, asker: Asker, model: ModelPort, messages: "Sequence[Msg]", most: int
    ) -> Mapping[str, Any] | None:
        """Return the two sections, asked for at once where the model can take it all, else in stages."""
        code, task = self.nonce()[:_CODE_CHARS], prompt.instruction(most)
        units = list(units_of(messages, code))
        overhead = await self.count(task + UNTRUSTED) + _MARGIN_TOKENS
        room = max(_LEAST_CHUNK_TOKENS, int(model.context_size * _WINDOW_SHARE) - most - overhead)
        if sum([await self.count(unit.text) for unit in units]) <= room:
            record = fenced("\n".join(unit.text for unit in units), self.nonce(), code=code)
            fields = await asker.ask([self.codec.user_message(f"{task}\n\n{record}")])
            if fields is not None or not asker.has_overflowed:
                return fields
        stages = Stages(
            asker=asker,
            codec=self.codec,
            schema=prompt.SCHEMA,
            instruction=task,
            max_tokens=most,
            limit_tokens=room,
            count=self.count,
            nonce=self.nonce,
            code=code,
        )
        return await stages.summarise(units, previous="")

    async def _collected(self, messages: "Sequence[Msg]") -> Mapping[str, Any]:
        """Return both texts as code collects them; they say so themselves."""
        excerpt = await Excerpt.of(messages, ledger=Ledger())
        fields = await extract_fields(excerpt, summary_json_schema(), max_tokens=self.max_tokens // 2, count=self.count)
        text = "\n\n".join(f"### {name.replace('_', ' ').capitalize()}\n{said}" for name, said in fields.items())
        return {"daily": text, "memory": text}

    async def _clean(self, text: str) -> str:
        return text if self.redactor is None else await redact_text(text, self.redactor)
