"""Drafts: the summary of what is about to leave, asked of a model and, where that fails, made by code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ctxkit import telemetry
from ctxkit.engine.layer import layer_text
from ctxkit.engine.learning import LearningModel
from ctxkit.offload.redact import counting, redact_messages, redact_text, redactor_of
from ctxkit.plan import Draft
from ctxkit.summary import Material, Summarizer
from ctxkit.summary.extractive import Excerpt, extract_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentscope.message import Msg

    from ctxkit.config import Settings
    from ctxkit.engine.gauge import Reading
    from ctxkit.engine.kit import Kit
    from ctxkit.engine.layer import Layers
    from ctxkit.port import ModelPort
    from ctxkit.view import View

_COLLECTED_TOKENS = 300
"""Of a summary that is made where there is hardly any room."""
_OWN_TIME_RATIO = 0.5
"""Share of the time that a model of its own for summaries may take, so that the agent's model can still be asked."""
_LEAST_S = 0.001
"""Seconds that are left where the first model took all of them: the second is not asked then."""


class Drafts:
    """Makes drafts for one agent.

    Args:
        kit: The agent's kit.
        layers: The agent's summary layers.
    """

    def __init__(self, kit: Kit, layers: Layers) -> None:
        self._kit = kit
        self._layers = layers

    async def make(
        self, reading: Reading, view: View, leaves: Sequence[Msg], *, tokens: int, settings: Settings, focus: str | None
    ) -> Draft:
        """Return the summary of the messages that leave; never fails, for without a model it is made by code.

        A model of its own for summaries is asked first, in at most half of the time; where it fails, the agent's own.

        Args:
            reading: The request as it is, which a warm call extends where none has been sent since the last edit.
            view: The context that the plan was made from.
            leaves: The messages that leave, oldest first.
            tokens: What they take.
            settings: How to summarise.
            focus: What the summary must look after, in the user's words.
        """
        kit = self._kit
        material = Material(
            messages=leaves,
            tokens=tokens,
            previous=layer_text(kit.port.summary),
            instructions=focus,
            ledger=self._layers.current().ledger,
            context=reading.request.messages,
            pins=[pin.text for pin in kit.pins.all() if pin.where != "context"],
        )
        with counting() as redacted:
            failed: Draft | None = None
            draft = None
            left = settings.summary.timeout_s
            if settings.summary.model is not None:
                started = kit.clock()
                draft = await self._by_own_model(reading, material, settings, settings.summary.model)
                left = max(_LEAST_S, left - (kit.clock() - started))
            if draft is None or draft.origin == "extractive":
                failed = draft
                warm = await self._warm(reading, view, material)
                draft = await self._summarizer(kit.port.model, settings, timeout_s=left).draft(warm)
        if redacted:
            kit.tell_later(telemetry.REDACTED, counts=dict(redacted))
        return draft if failed is None else _after(failed, draft)

    async def _by_own_model(self, reading: Reading, material: Material, settings: Settings, model: object) -> Draft:
        """Return the summary of a model that has not seen the history: in its own window and tokens, never warm."""
        own, gauge = self._kit.port.model_of(model), self._kit.gauge
        weight = await gauge.weigh_messages(material.messages, model_key=reading.model_key)
        tokens = round(gauge.meter.calibrated(weight, model_key=own.key))
        summarizer = self._summarizer(own, settings, timeout_s=settings.summary.timeout_s * _OWN_TIME_RATIO)
        return await summarizer.draft(replace(material, tokens=tokens))

    async def _warm(self, reading: Reading, view: View, material: Material) -> Material:
        """Return the material with the request that a warm call extends, and with the room behind it."""
        kit, gauge, key = self._kit, self._kit.gauge, reading.model_key
        request = kit.sent.extended(reading.request, view)
        now, sent = reading.request.messages, request.messages
        both = {*map(id, now)} & {*map(id, sent)}  # most of thousands, and they weigh the same
        weight = reading.weight - await gauge.weigh_messages([one for one in now if id(one) not in both], model_key=key)
        weight += await gauge.weigh_messages([one for one in sent if id(one) not in both], model_key=key)
        room = reading.context_size - gauge.meter.estimate(weight, model_key=key)
        return replace(material, request=request, tool_choice=request.tool_choice, room_tokens=room)

    def _summarizer(self, model: ModelPort, settings: Settings, *, timeout_s: float) -> Summarizer:
        """Return what summarises with one model, and counts in its tokens."""
        kit = self._kit

        async def count(text: str) -> int:
            return round(await kit.gauge.pieces_tokens(text, model_key=model.key))

        return Summarizer(
            LearningModel(kit, model),
            kit.codec,
            schema=settings.summary_schema,
            prompt=settings.compression_prompt,
            config=replace(settings.summary, timeout_s=timeout_s),
            count=count,
            redactor=redactor_of(settings.privacy),
        )

    async def collect(
        self, reading: Reading, leaves: Sequence[Msg], *, settings: Settings, max_tokens: int | None = None
    ) -> Draft:
        """Return a summary of the messages that leave, made by code.

        Args:
            reading: The request as it is.
            leaves: The messages that leave, oldest first.
            settings: How to summarise.
            max_tokens: Most tokens of its fields, which then say what the summary before said, too; the least where unset.
        """
        kit = self._kit

        async def count(text: str) -> int:
            return round(await kit.gauge.pieces_tokens(text, model_key=reading.model_key))

        redactor = redactor_of(settings.privacy)
        leaves = await redact_messages(leaves, redactor, kit.codec)
        before = "" if max_tokens is None else layer_text(kit.port.summary)
        before = before if redactor is None else await redact_text(before, redactor)
        excerpt = await Excerpt.of(leaves, ledger=self._layers.current().ledger, previous=before)
        most = _COLLECTED_TOKENS if max_tokens is None else max_tokens
        fields = await extract_fields(excerpt, settings.summary_schema, max_tokens=most, count=count)
        return Draft(fields=fields, origin="extractive")


def _after(failed: Draft, draft: Draft) -> Draft:
    """Return a draft that came of a second model, with what the first one cost and why it failed."""
    usages = [usage for usage in (failed.usage, draft.usage) if usage is not None]
    total = usages[0] + usages[1] if len(usages) > 1 else next(iter(usages), None)
    return replace(draft, usage=total, failures=(*failed.failures, *draft.failures))
