"""See what a compression would do, block by block: the engine's own plan, not carried out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from ctxkit.engine.layer import layer_text
from ctxkit.engine.steer.bill import Bill, bill_of
from ctxkit.plan import EditKind
from ctxkit.port import Usage
from ctxkit.strategies.ladder import freed_tokens, leaving
from ctxkit.tokens import price_of
from ctxkit.view import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctxkit.engine.climb import Chosen
    from ctxkit.engine.planned import Planned
    from ctxkit.engine.run import Run
    from ctxkit.plan import Edit

What = Literal["kept", "shortened", "cleared", "summarised", "dropped"]
"""What becomes of blocks."""

_FATES: Final[dict[EditKind, tuple[What, str]]] = {
    EditKind.COMPRESS: ("summarised", "the oldest messages go into the summary"),
    EditKind.DROP: ("dropped", "it is taken out without a summary of its own"),
    EditKind.TRUNCATE: ("shortened", "it is larger than there is room for: head and tail stay"),
    EditKind.SHRINK: ("shortened", "the same is said in fewer tokens"),
    EditKind.IMAGE: ("shortened", "there are more images than the limit: a note takes its place"),
    EditKind.CLEAR: ("cleared", "one line says what stood here"),
}
_ANSWER_SHARE: Final = 0.5
"""An estimate takes a summary to have this share of the tokens that it may have."""


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What becomes of some blocks of one message that stand side by side."""

    message_id: str
    role: str
    start: int
    """0-based index of the first block."""
    stop: int
    """Index behind the last block."""
    what: What
    tokens_before: int
    tokens_after: int
    rule: str = ""
    """The strategy that wants it; empty for what is kept."""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a compression would do."""

    plan_id: str | None
    """The plan, which stays prepared: a compression with the same focus uses its summary. `None` where nothing would be
    done, or nothing was made."""
    is_estimate: bool
    """No summary was made, so what it would take is estimated."""
    fates: tuple[Fate, ...]
    """The whole context, in order."""
    tokens_before: int
    """Estimated tokens of the whole request now."""
    tokens_after: int
    """The same behind the compression."""
    layer_before: int
    """Of these, tokens of the summary layer."""
    layer_after: int
    stable_tokens: int
    """Tokens at the request's beginning that stay as they are, so that a prompt cache still serves them."""
    rebilled_tokens: int
    """Tokens behind them, which are written to the cache anew, once."""
    bill: Bill | None
    """What it costs and saves; `None` where the model's prices are not known, or nothing would be done."""
    summary: str | None = None
    """The new summary layer; `None` where it stays, or was not made."""
    why: str = ""
    """Why this would be done, or why nothing would."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {**asdict(self), "fates": [asdict(fate) for fate in self.fates]}


async def preview_of(run: Run, planned: Planned) -> Preview:
    """Return what a plan that was made would do.

    Args:
        run: The run that planned.
        planned: Its plan.
    """
    gauge, key = run.kit.gauge, run.reading.model_key
    layer_before = round(await gauge.pieces_tokens(run.kit.port.summary, model_key=key))
    is_done = planned.context is not None and not planned.broken
    draft = planned.draft
    return Preview(
        plan_id=run.plan_id if is_done else None,
        is_estimate=False,
        fates=tuple(await _fates(run, planned.edits if is_done else (), planned)),
        tokens_before=run.tokens_before,
        tokens_after=planned.tokens_after if is_done else run.tokens_before,
        layer_before=layer_before,
        layer_after=round(planned.layer.tokens) if is_done and planned.layer is not None else layer_before,
        stable_tokens=planned.stable_tokens if is_done else run.tokens_before,
        rebilled_tokens=max(0, planned.tokens_after - planned.stable_tokens) if is_done else 0,
        bill=_bill(run, planned.tokens_after, planned.stable_tokens, None if draft is None else draft.usage)
        if is_done
        else None,
        summary=layer_text(planned.layer.pieces) if is_done and planned.layer is not None else None,
        why="; ".join(filter(None, (planned.why, *planned.broken))),
    )


async def estimate_of(run: Run, chosen: Chosen) -> Preview:
    """Return what a compression would do, as far as it can be told without a summary.

    Args:
        run: The run that chose.
        chosen: Its edits.
    """
    here, key = run.situation, run.reading.model_key
    layer_before = round(await run.kit.gauge.pieces_tokens(run.kit.port.summary, model_key=key))
    has_summary = any(edit.kind is EditKind.COMPRESS for edit in chosen.edits)
    answer = _ANSWER_SHARE * run.settings.summary.max_tokens
    layer_after = (
        round(max(layer_before, min(run.layer_budget, layer_before + answer))) if has_summary else layer_before
    )
    after = round(here.request_tokens - freed_tokens(here, chosen.edits)) + layer_after - layer_before
    stable = here.fixed_tokens if has_summary else run.stable_tokens(chosen.edits, None)
    usage = None
    if has_summary:
        is_warm = run.settings.summary.warm and run.settings.summary.model is None
        usage = Usage(
            input_tokens=run.tokens_before,
            output_tokens=round(answer),
            cache_read_tokens=run.tokens_before if is_warm else 0,
        )
    return Preview(
        plan_id=None,
        is_estimate=True,
        fates=tuple(await _fates(run, chosen.edits, None)),
        tokens_before=run.tokens_before,
        tokens_after=after,
        layer_before=layer_before,
        layer_after=layer_after,
        stable_tokens=stable,
        rebilled_tokens=max(0, after - stable) if chosen.edits else 0,
        bill=_bill(run, after, stable, usage) if chosen.edits else None,
        why=chosen.why,
    )


def _bill(run: Run, tokens_after: int, stable_tokens: int, usage: Usage | None) -> Bill | None:
    cost = run.settings.cost
    return bill_of(
        price_of(run.reading.model_key, cost.price, ask_for_cache=cost.ask_for_cache),
        tokens_before=run.tokens_before,
        tokens_after=tokens_after,
        stable_tokens=stable_tokens,
        usage=usage,
    )


async def _fates(run: Run, edits: Sequence[Edit], planned: Planned | None) -> list[Fate]:
    """Return what becomes of each message, block by block, runs of the same together."""
    view, tokens = run.situation.view, run.situation.tokens
    after = await _tokens_after(run, edits, planned)
    fates: list[Fate] = []
    for index, message in enumerate(view.messages):
        at = 0
        own = sorted((edit for edit in edits if edit.message == index), key=lambda edit: edit.start)
        pinned = "it is pinned" if index in run.situation.pinned else ""
        for edit in [*own, None]:
            stop = edit.start if edit is not None else len(view.contents[index])
            if stop > at or (edit is None and not own):
                stood = round(sum(tokens[index][at:stop]))
                kept = Fate(
                    message_id=message.id,
                    role=message.role,
                    start=at,
                    stop=stop,
                    what="kept",
                    tokens_before=stood,
                    tokens_after=stood,
                    reason=pinned,
                )
                fates.append(kept)
            if edit is not None:
                fates.append(_fate(run, edit, after.get(Place(index, edit.start), 0)))
                at = edit.stop
    return fates


def _fate(run: Run, edit: Edit, tokens_after: int) -> Fate:
    what, reason = _FATES[edit.kind]
    return Fate(
        message_id=edit.message_id,
        role=run.situation.view.messages[edit.message].role,
        start=edit.start,
        stop=edit.stop,
        what=what,
        tokens_before=round(sum(run.situation.tokens[edit.message][edit.start : edit.stop])),
        tokens_after=tokens_after,
        rule=edit.rule,
        reason=reason,
    )


async def _tokens_after(run: Run, edits: Sequence[Edit], planned: Planned | None) -> dict[Place, int]:
    """Return the tokens of what stands in place of each block that is shortened: measured, or as the edits say."""
    changed = [edit for edit in edits if edit.kind not in {EditKind.COMPRESS, EditKind.DROP}]
    if planned is None or planned.context is None:
        return {Place(edit.message, edit.start): edit.keep_tokens for edit in changed}
    wanted = {Place(edit.message, edit.start) for edit in changed}
    found = {}
    for place, now in _staying(run, edits):
        if place in wanted:
            block = planned.context[now.message].content[now.block]
            found[place] = round(await run.kit.gauge.block_tokens(block, model_key=run.reading.model_key))
    return found


def _staying(run: Run, edits: Sequence[Edit]) -> Iterator[tuple[Place, Place]]:
    """Yield the place of each block that stays with its place behind the change."""
    view, gone, at = run.situation.view, leaving(edits), 0
    touched = {edit.message for edit in edits}
    for index, content in enumerate(view.contents):
        left = [Place(index, number) for number in range(len(content)) if Place(index, number) not in gone]
        is_running = view.is_running_last and index == len(view) - 1
        if index in touched and not left and not is_running:
            continue
        yield from ((place, Place(at, number)) for number, place in enumerate(left))
        at += 1
