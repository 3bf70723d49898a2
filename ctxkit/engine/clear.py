"""Clear a context that nothing else makes fit (`on_unfit="clear"`): all but the newest request leaves, stored whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxkit.engine.apply import apply_edits, taken_away
from ctxkit.plan import Draft, Edit, EditKind
from ctxkit.strategies.compress import staying
from ctxkit.strategies.images import ImageStrategy
from ctxkit.strategies.ladder import ruled
from ctxkit.strategies.shorten import AdmissionStrategy
from ctxkit.view import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxkit.engine.planned import Planned
    from ctxkit.engine.run import Run
    from ctxkit.strategies import Situation


async def clear_context(run: Run, *, until: tuple[str, int] | None = None) -> Planned:
    """Plan to take all but the newest user request, pins and unfinished calls out of a context; no model is asked.

    The summary layer stays, and says where the rest is.

    Args:
        run: A run that found that the context does not fit.
        until: As for `plan_clear`.

    Raises:
        ContextUnfitError: Not even the newest request fits; the context is as it was.
        StoreWriteError: What would leave could not be stored; the context is as it was.
    """
    kit, view, model_key = run.kit, run.situation.view, run.reading.model_key
    edits = plan_clear(run.situation, until=until)
    leaves = taken_away(view, edits, kit.codec)
    reference = await run.store(leaves)
    kept = apply_edits(view, edits, {}, kit.codec)
    stays = kit.gauge.meter.calibrated(await kit.gauge.weigh_messages(kept, model_key=model_key), model_key=model_key)
    room = run.limit_tokens - run.situation.fixed_tokens - stays
    draft = Draft(fields=run.layers.current().fields, origin="extractive")
    await run.plan(edits, draft)
    layer = await run.layers.next(
        leaves,
        draft,
        reference=reference,
        tokens=sum(edit.tokens for edit in edits if edit.kind is EditKind.DROP),
        budget_tokens=max(0, int(min(room, run.layer_budget))),
        keeps=kept,
        settings=run.settings,
        model_key=model_key,
    )
    shortened = await kit.shortener(run.settings, model_key).carry_out(view, edits)
    run.problems.extend(shortened.problems)
    return await run.check(shortened, layer, reference=reference, why="nothing else fits (on_unfit)")


def plan_clear(situation: Situation, *, until: tuple[str, int] | None = None) -> tuple[Edit, ...]:
    """Return the edits that leave the newest user request, cut to its budget, pins and the calls that are unfinished.

    Args:
        situation: The context and what it weighs.
        until: What came behind the so many blocks of this message stays as well, for the model has answered since; `None`
            for the end.
    """
    stays = staying(situation)
    small = {
        (edit.message, edit.start): edit
        for rule, strategy in (("images", ImageStrategy()), ("admission", AdmissionStrategy()))
        for edit in ruled(rule, strategy.plan_edits(situation))
        if edit.message in stays - situation.pinned
    }
    return (*small.values(), *_drops(situation, stays, until))


def _drops(situation: Situation, stays: frozenset[int], until: tuple[str, int] | None) -> Iterator[Edit]:
    view = situation.view
    unfinished = view.unfinished
    stop = max((cut for cut in view.cuts if cut <= unfinished[0].call), default=None) if unfinished else None
    if until is not None:
        index = next((index for index, message in enumerate(view.messages) if message.id == until[0]), 0)
        last = Place(index, min(until[1], len(view.contents[index])) if view.messages else 0)
        stop = last if stop is None else min(stop, last)
    for index, content in enumerate(view.contents):
        end = len(content)
        if stop is not None and index >= stop.message:
            end = stop.block if index == stop.message else 0
        if index not in stays and end:
            yield Edit(
                kind=EditKind.DROP,
                message=index,
                message_id=view.messages[index].id,
                start=0,
                stop=end,
                tokens=round(sum(situation.tokens[index][:end])),
                rule="clear_context",
            )
