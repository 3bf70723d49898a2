"""Clear a context because its user says so: everything leaves but pins and calls in flight, stored whole, no model asked."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from ctxkit.engine.apply import apply_edits, taken_away
from ctxkit.engine.clear import plan_clear
from ctxkit.errors import StoreWriteError
from ctxkit.summary import SummaryState
from ctxkit.view import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentscope.message import Msg

    from ctxkit.engine.hooks import Hooks
    from ctxkit.engine.layer import Layer
    from ctxkit.engine.planned import Planned
    from ctxkit.engine.run import Run


class AnsweredView(View):
    """A context in which nobody waits for an answer: its newest request may leave as anything else may."""

    @cached_property
    def latest_request(self) -> tuple[int, ...]:
        """None is kept."""
        return ()


async def plan_forget(run: Run, hooks: Hooks) -> Planned:
    """Plan to let a whole conversation leave: what it said is in the store alone, and in memory where there is one.

    The summary layer goes too; in its place stand the lines that say where the rest is, unless these would be longer than
    all that leaves.

    Args:
        run: A run that has measured.
        hooks: Told before anything is stored.

    Returns:
        What `Run.apply` carries out; without a context where there is nothing to forget.

    Raises:
        ContextUnfitError: System prompt, tools and pins alone do not fit.
        StoreWriteError: What would leave could not be stored, or there is no place for it.
    """
    kit, here = run.kit, run.situation
    view = AnsweredView(here.view.messages, agent_name=kit.port.name, reply_id=kit.port.reply_id)
    run.situation = here = replace(here, view=view)
    # An empty message, which carries a reply's usage, has nothing to forget.
    edits = tuple(edit for edit in plan_clear(here) if edit.stop > edit.start)
    if not edits and not kit.port.summary:
        return run.nothing("nothing stands in the context that could leave")
    await hooks.before(edits)
    leaves = taken_away(view, edits, kit.codec)
    reference = await run.store(leaves) if leaves else None
    if leaves and reference is None:
        msg = f"Agent {kit.port.name!r} has no offloader, so what left would be lost; nothing was removed. Give it one."
        raise StoreWriteError(msg)
    await run.plan(edits, None)
    tokens = sum(edit.tokens for edit in edits)
    layer = await _layer(run, leaves, apply_edits(view, edits, {}, kit.codec), reference=reference, tokens=tokens)
    shortened = await kit.shortener(run.settings, run.reading.model_key).carry_out(view, edits)
    planned = await run.check(shortened, layer, reference=reference, why="its user cleared it")
    return replace(planned, awaits=())


async def _layer(run: Run, leaves: Sequence[Msg], keeps: Sequence[Msg], *, reference: str | None, tokens: int) -> Layer:
    """Return a summary layer that says nothing but where the conversation is, and what is pinned."""

    async def shown(state: SummaryState) -> Layer:
        return await run.layers.rendered(
            state,
            leaves=leaves,
            keeps=keeps,
            budget_tokens=int(run.layer_budget),
            reference=reference,
            settings=run.settings,
            model_key=run.reading.model_key,
        )

    state = run.layers.current()
    if leaves:
        state = await state.absorb(leaves, tokens=tokens, reference=reference, keeps=keeps)
    # Of the largest text a stub has its first words.
    stubs = tuple(replace(stub, largest="") for stub in state.stubs)
    layer = await shown(SummaryState(stubs=stubs))
    if layer.tokens < tokens + run.layer_tokens:
        return layer
    return await shown(SummaryState())
