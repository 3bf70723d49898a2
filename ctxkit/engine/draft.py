"""Drafts: the summary of what is about to leave, asked of the agent's own model and, where that fails, made by code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxkit import telemetry
from ctxkit.engine.layer import layer_text
from ctxkit.engine.learning import LearningModel
from ctxkit.offload.redact import counting, redact_messages, redactor_of
from ctxkit.plan import Draft
from ctxkit.port import Request
from ctxkit.summary import Material, Summarizer
from ctxkit.summary.extractive import Excerpt, extract_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentscope.message import Msg

    from ctxkit.config import Settings
    from ctxkit.engine.gauge import Reading
    from ctxkit.engine.kit import Kit
    from ctxkit.engine.layer import Layers
    from ctxkit.view import View

_COLLECTED_TOKENS = 300
"""Of a summary that is made where there is hardly any room."""


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

        Args:
            reading: The request as it is, which a warm call extends.
            view: The context that the plan was made from.
            leaves: The messages that leave, oldest first.
            tokens: What they take.
            settings: How to summarise.
            focus: What the summary must look after, in the user's words.
        """
        kit = self._kit

        async def count(text: str) -> int:
            return round(await kit.gauge.pieces_tokens(text, model_key=reading.model_key))

        summarizer = Summarizer(
            LearningModel(kit, kit.port.model),
            kit.codec,
            schema=settings.summary_schema,
            prompt=settings.compression_prompt,
            config=settings.summary,
            count=count,
            redactor=redactor_of(settings.privacy),
        )
        material = Material(
            messages=leaves,
            request=self._finished(reading.request, view),
            tool_choice=kit.tool_choice,
            room_tokens=reading.context_size - reading.tokens,
            tokens=tokens,
            previous=layer_text(kit.port.summary),
            instructions=focus,
            ledger=self._layers.current().ledger,
        )
        with counting() as redacted:
            draft = await summarizer.draft(material)
        if redacted:
            kit.tell_later(telemetry.REDACTED, counts=dict(redacted))
        return draft

    async def collect(self, reading: Reading, leaves: Sequence[Msg], *, settings: Settings) -> Draft:
        """Return the least summary of the messages that leave, made by code."""
        kit = self._kit

        async def count(text: str) -> int:
            return round(await kit.gauge.pieces_tokens(text, model_key=reading.model_key))

        leaves = await redact_messages(leaves, redactor_of(settings.privacy), kit.codec)
        excerpt = await Excerpt.of(leaves, ledger=self._layers.current().ledger)
        fields = await extract_fields(excerpt, settings.summary_schema, max_tokens=_COLLECTED_TOKENS, count=count)
        return Draft(fields=fields, origin="extractive")

    def _finished(self, request: Request, view: View) -> Request:
        """Return the request up to the last finished exchange: providers refuse calls that are not answered."""
        if not view.unfinished:
            return request
        first = view.unfinished[0].call
        cut = max((place for place in view.cuts if place <= first), default=None)
        if cut is None:
            return request
        first_seen = view.messages[0]
        layers = next((i for i, message in enumerate(request.messages) if message is first_seen), len(request.messages))
        kept = [*request.messages[: layers + cut.message]]
        if cut.block > 0:
            kept.append(
                self._kit.codec.with_content(view.messages[cut.message], view.contents[cut.message][: cut.block])
            )
        return Request(messages=kept, tools=request.tools)
