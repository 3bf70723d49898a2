"""The summary layer of one agent: what it is made of is kept beside it, so that the next compression only adds to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from ctxkit.ledger import scan_block
from ctxkit.offload.redact import redact_messages, redactor_of
from ctxkit.summary import SummaryState, render
from ctxkit.summary.reminder import reminder_text
from ctxkit.summary.render import shortened
from ctxkit.tokens import serve_loop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentscope.message import Msg

    from ctxkit.config import Settings
    from ctxkit.engine.kit import Kit
    from ctxkit.offload.chain import StoredSummary
    from ctxkit.plan import Draft
    from ctxkit.port import Piece

_SLOT = "summary"
_ITS_OWN = "its own"
"""In place of a digest: the state belongs to the summary that is restored with it."""
DROPPED = "[Earlier messages truncated]"
"""What the layer says of messages that left without a summary (Digitorn's words)."""
_AWAITED = "awaited"
_MOST_AWAITED = 8
"""So many summaries of memory are waited for at most; what is older stays a stub."""
_REMINDER_SHARE = 0.25
"""Share of the layer that a reminder may have."""
_FOREIGN_CHARS = 6000
"""How much is kept of a summary that somebody else wrote."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A summary layer that has been made but not applied."""

    state: SummaryState
    pieces: Sequence[Piece]
    tokens: float
    """Calibrated tokens of the pieces."""

    @property
    def digest(self) -> str:
        """What tells its text from others."""
        return _digest(layer_text(self.pieces))


class Layers:
    """Makes the layers of one agent, and remembers the one that was applied.

    Args:
        kit: The agent's kit.
    """

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def current(self) -> SummaryState:
        """Return what the agent's summary is made of.

        A summary that ctxkit did not write (the host's, a restored session's) is taken over as a note, word for word as
        far as there is room.
        """
        saved = self._saved()
        text = layer_text(self._kit.port.summary)
        if saved.get("digest") == _digest(text):
            return SummaryState.from_json(saved.get("state"))
        if not text:
            return SummaryState()
        state = SummaryState.from_json(saved.get("state"))
        return replace(state, notes=(*state.notes, f"An earlier summary said: {text[:_FOREIGN_CHARS]}"))

    def digest(self) -> str:
        """Return what tells the agent's summary layer from others, as it is now."""
        return _digest(layer_text(self._kit.port.summary))

    def plan_id(self) -> str | None:
        """Return the plan that the agent's summary came of; None where that is not known."""
        plan_id = self._saved().get("plan")
        return plan_id if isinstance(plan_id, str) else None

    def awaited(self) -> tuple[str, ...]:
        """Return the plans in whose place a stub stands until memory has written a summary, oldest first.

        None where somebody has changed the summary since: then no stub of theirs stands there.
        """
        saved = self._saved()
        found = saved.get(_AWAITED) if saved.get("digest") == self.digest() else None
        return tuple(plan_id for plan_id in found if isinstance(plan_id, str)) if isinstance(found, list) else ()

    def lost_digest(self) -> str | None:
        """Return the digest of the agent's summary where its parts are not known; None where they are, or there is none."""
        text = layer_text(self._kit.port.summary)
        digest = _digest(text)
        return digest if text and self._saved().get("digest") != digest else None

    def take_back(self, summary: StoredSummary) -> None:
        """Take what is stored of the agent's summary for what it is made of."""
        self._save(summary.state, summary.digest, summary.plan_id)

    async def next(
        self,
        leaves: Sequence[Msg],
        draft: Draft | None,
        *,
        reference: str | None,
        tokens: int,
        budget_tokens: int,
        keeps: Sequence[Msg],
        settings: Settings,
        model_key: str,
        cleared: Sequence[Msg] = (),
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Layer:
        """Return the layer that follows when messages leave the context.

        Args:
            leaves: The messages that leave.
            draft: Their summary; `None` where they are dropped without one, which the layer says.
            reference: Where they are stored, or None.
            tokens: What they took.
            budget_tokens: Most tokens of the whole layer.
            keeps: The messages that stay; what they name needs no place in the ledger.
            settings: Template and shares.
            model_key: The model at hand.
            cleared: What goes besides from what stays, as messages; its facts are kept.
            tools: The tool schemas of the request, which a reminder names.
        """
        leaves = await redact_messages(leaves, redactor_of(settings.privacy), self._kit.codec)
        state = await self.current().absorb(leaves, tokens=tokens, reference=reference, keeps=keeps)
        state = await self.with_facts(cleared, settings=settings, state=state)
        notes = [note for note in state.notes if note.startswith("An earlier summary")]
        notes += [DROPPED] if draft is None else []
        state = replace(state, fields=state.fields if draft is None else dict(draft.fields), notes=tuple(notes))
        return await self.rendered(
            state,
            leaves=leaves,
            keeps=keeps,
            budget_tokens=budget_tokens,
            reference=reference,
            settings=settings,
            model_key=model_key,
            tools=tools,
        )

    async def rendered(
        self,
        state: SummaryState,
        *,
        leaves: Sequence[Msg],
        keeps: Sequence[Msg],
        budget_tokens: int,
        reference: str | None,
        settings: Settings,
        model_key: str,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Layer:
        """Return the layer that shows a state; see `next`."""
        gauge = self._kit.gauge

        async def count(text: str) -> int:
            return round(await gauge.pieces_tokens(text, model_key=model_key))

        pins = await shortened(self._kit.pins.layer_text(leaves, keeps), budget_tokens, count, reference=reference)
        reminder = ""
        if settings.summary.reminder:
            reminder = reminder_text(tools, state.ledger, most_tools=settings.summary.reminder_tools)
            reminder = await shortened(reminder, int(_REMINDER_SHARE * budget_tokens), count)
        beside = sum([await count(text) for text in (pins, reminder) if text])
        texts = await render(
            state,
            template=settings.summary_template,
            budget_tokens=budget_tokens - beside,
            config=settings.summary,
            count=count,
            exclude=await _named_in(keeps),
        )
        pieces = [self._kit.codec.text(text) for text in (pins, *texts, reminder) if text]
        return Layer(state=state, pieces=pieces, tokens=await gauge.pieces_tokens(pieces, model_key=model_key))

    async def with_facts(
        self, messages: Sequence[Msg], *, settings: Settings, state: SummaryState | None = None
    ) -> SummaryState:
        """Return what the summary is made of with the facts of messages in its ledger; its text stays as it is.

        Args:
            messages: The messages, or parts of them.
            settings: How to redact.
            state: What it is made of; as it is now where unset.
        """
        state = self.current() if state is None else state
        clean = await redact_messages(messages, redactor_of(settings.privacy), self._kit.codec)
        return replace(state, ledger=await state.ledger.read(clean)) if clean else state

    def learn(self, state: SummaryState) -> None:
        """Keep what the summary is made of now, where its text has stayed."""
        self._save(state.to_json(), self.digest(), self.plan_id(), awaits=self.awaited())

    def remember(self, layer: Layer, plan_id: str, *, awaits: Sequence[str] = ()) -> None:
        """Keep what an applied layer is made of, beside it in the agent's state.

        Args:
            layer: The layer.
            plan_id: The plan that made it.
            awaits: The plans of which memory is to write a summary that comes in later.
        """
        self._save(layer.state.to_json(), layer.digest, plan_id, awaits=awaits)

    def saved(self) -> Mapping[str, Any] | None:
        """Return what the agent's state holds of its summary, for `restore`; None where it holds nothing."""
        saved = self._saved()
        is_current = saved.get("digest") == _digest(layer_text(self._kit.port.summary))
        return {**saved, **({"digest": _ITS_OWN} if is_current else {})} or None

    def restore(self, saved: Mapping[str, Any] | None) -> None:
        """Take for what the agent's summary is made of what its state held when the summary was last this one."""
        if not saved:
            self._kit.port.slot.pop(_SLOT, None)
            return
        # What was read back from a store may differ from what was stored by redactions.
        now = {"digest": _digest(layer_text(self._kit.port.summary))} if saved.get("digest") == _ITS_OWN else {}
        self._kit.port.slot[_SLOT] = {**saved, **now}

    def _saved(self) -> Mapping[str, Any]:
        saved = self._kit.port.slot.get(_SLOT)
        return saved if isinstance(saved, dict) else {}

    def _save(self, state: Mapping[str, Any], digest: str, plan_id: str | None, *, awaits: Sequence[str] = ()) -> None:
        waiting = {_AWAITED: list(awaits)[-_MOST_AWAITED:]} if awaits else {}
        self._kit.port.slot[_SLOT] = {"state": state, "digest": digest, "plan": plan_id, **waiting}


def layer_text(layer: Sequence[Piece] | str) -> str:
    """Return the text of a summary layer."""
    if isinstance(layer, str):
        return layer
    return "\n".join(piece.text for piece in layer if piece.type == "text")


async def _named_in(messages: Sequence[Msg]) -> set[str]:
    """Return the identifiers that messages name; what was scanned before costs a look-up."""
    named: set[str] = set()
    for message in messages:
        for block in message.content:
            named.update((await scan_block(block, role=message.role)).identifiers)
        await serve_loop()
    return named


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
