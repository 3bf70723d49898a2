"""The journal of one agent's compressions: each is written down before it changes the agent, and an unfinished one is found."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from ctxkit.offload.chain import Chain, StoredPlan, StoredSummary
from ctxkit.plan import EditKind
from ctxkit.strategies.ladder import LEAVING, leaving, plan_ladder
from ctxkit.view import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctxkit.config import Settings
    from ctxkit.engine.kit import Kit
    from ctxkit.engine.layer import Layer, Layers
    from ctxkit.offload import Store
    from ctxkit.plan import Draft, Edit
    from ctxkit.port import Block
    from ctxkit.strategies import Situation
    from ctxkit.view import View

_SLOT = "plan"
_LOOKED_AT = 8
"""So many of the newest plans and summaries are read: state that is older than so many compressions begins anew."""


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """A plan that was stored and not applied, on the context as it is now."""

    plan_id: str
    edits: tuple[Edit, ...]
    keys: tuple[str, ...]
    """Keys of the records of the messages that it takes away."""
    draft: Draft
    """Their summary, which has been paid for."""
    reference: str | None = None
    """Where they are stored; to be trusted where `is_same`."""
    is_same: bool = False
    """They are the very blocks that the plan saw, so they need not be stored a second time to tell."""
    is_prepared: bool = False
    """The summary was made in the background, before it was due."""


@dataclass(frozen=True, kw_only=True)
class TakenBlocks:
    """The very blocks that a plan takes away."""

    blocks: tuple[tuple[str, int, tuple[Block, ...]], ...]
    """The message's id, the place of the first one in it, and the blocks."""
    end: Place
    """Behind the last of them, in the context that the plan was made from."""
    before: tuple[tuple[Block, ...], ...]
    """All blocks of that context up to there, by message."""
    pinned: frozenset[str] = frozenset()
    """Ids of what was pinned when the plan was made."""

    @classmethod
    def of(cls, view: View, edits: Iterable[Edit], *, pinned: frozenset[str] = frozenset()) -> TakenBlocks:
        """Return what edits take away of a context.

        Args:
            view: The context.
            edits: The edits.
            pinned: Ids of what is pinned; what of it is taken away has no room as a pin.
        """
        taken = [edit for edit in edits if edit.kind in LEAVING]
        end = max((Place(edit.message, edit.stop) for edit in taken), default=Place(0, 0))
        return cls(
            blocks=tuple(
                (edit.message_id, edit.start, view.contents[edit.message][edit.start : edit.stop]) for edit in taken
            ),
            end=end,
            before=_blocks_before(view, end),
            pinned=pinned,
        )

    def problem(self, view: View, *, pinned: frozenset[str]) -> str | None:
        """Return why they can no longer be taken away, or None where all stand as they stood in their messages.

        Args:
            view: The context.
            pinned: Ids of what is pinned now.
        """
        if not self._is_untouched(view) and not self._is_in(view):
            return "what it stands for has been changed or removed"
        is_free = pinned <= self.pinned or (pinned - self.pinned).isdisjoint(taken[0] for taken in self.blocks)
        return None if is_free else "a part of what it stands for has been pinned"

    def _is_untouched(self, view: View) -> bool:
        """Whether nothing at all has changed up to the last of them; at C speed, for it is asked at each step."""
        here = _blocks_before(view, self.end)
        is_as_long = list(map(len, here)) == list(map(len, self.before))
        return is_as_long and all(map(operator.is_, chain.from_iterable(here), chain.from_iterable(self.before)))

    def _is_in(self, view: View) -> bool:
        """Whether all of them still stand where they stood in their messages, wherever these are now."""
        contents = {message.id: content for message, content in zip(view.messages, view.contents, strict=True)}
        return all(
            _is_same(contents.get(message_id, ())[start : start + len(blocks)], blocks)
            for message_id, start, blocks in self.blocks
        )


class Journal:
    """Writes down what is planned and what a summary is made of, in the store that holds the messages.

    Without a store it remembers nothing, and nothing is asked of it.

    Args:
        kit: The agent's kit.
        layers: The agent's summary layers.
    """

    def __init__(self, kit: Kit, layers: Layers) -> None:
        self._kit = kit
        self._layers = layers
        self._looked_at: tuple[Store | None, str] = (None, "")
        self._open: list[StoredPlan] = []
        self._seen: dict[str, TakenBlocks] = {}
        """Of the plans that this process has prepared, the blocks that they take away."""

    async def look(self) -> None:
        """Find what an earlier process left of this session, once; what goes wrong is logged and costs no more than that.

        Afterwards `unfinished` has the plans that were stored and not applied, and a summary whose parts the agent's state
        has lost is whole again.
        """
        here = (self._kit.guard.store, self._kit.port.session_id)
        if self._looked_at[0] is here[0] and self._looked_at[1] == here[1]:
            return
        self._looked_at = here
        self._open.clear()
        self._seen.clear()
        if here[0] is not None:
            await self._kit.guard.attempt(self._read, *here)

    async def _read(self, store: Store, session_id: str) -> None:
        found = await Chain.read(store, session_id)
        lost = self._layers.lost_digest()
        if lost is not None:
            summary = await found.summary(digest=lost, most=_LOOKED_AT)
            if summary is not None:
                self._layers.take_back(summary)
                self._kit.port.slot.setdefault(_SLOT, summary.plan_id)
        self._open = await found.plans(after=self._kit.port.slot.get(_SLOT), most=_LOOKED_AT)

    def unfinished(self, situation: Situation, *, focus: str | None, settings: Settings) -> Iterator[Unfinished]:
        """Yield the plans that were stored and not applied and can be carried out now, the newest first.

        Args:
            situation: The context.
            focus: What the summary must look after; plans that asked for something else are left out.
            settings: Name the fields that the summary must have.
        """
        wanted = set(settings.summary_schema.get("properties", {}))
        for stored in self._open:
            draft = stored.draft
            # What was made without a model is made anew: by now the model may answer.
            if draft is None or draft.origin == "extractive" or not set(draft.fields) <= wanted:
                continue
            seen = self._seen.get(stored.plan.id)
            if stored.focus != focus or self.changed(stored, situation.view) or not (stored.keys or seen):
                continue
            edits = _edits_again(stored, situation)
            if edits is not None:
                yield Unfinished(
                    plan_id=stored.plan.id,
                    edits=edits,
                    keys=stored.keys,
                    draft=draft,
                    reference=stored.reference,
                    is_same=seen is not None,
                    is_prepared=stored.is_prepared,
                )

    def prepared(self) -> StoredPlan | None:
        """Return the newest plan that was prepared and is not applied, as far as is known; None where there is none."""
        return next((stored for stored in self._open if stored.is_prepared), None)

    def changed(self, stored: StoredPlan, view: View) -> str | None:
        """Return why a plan no longer holds for a context as far as this process can tell, or None.

        Blocks are compared by identity where this process has planned it; what an earlier one planned is compared by the
        keys of its content, when it is stored again.

        Args:
            stored: The plan.
            view: The context.
        """
        if stored.layer is not None and stored.layer != self._layers.digest():
            return "the summary that it continues is no longer there"
        seen = self._seen.get(stored.plan.id)
        return None if seen is None else seen.problem(view, pinned=self._kit.pins.ids())

    async def plan(self, plan: StoredPlan) -> str | None:
        """Write down a plan before it is carried out; return what went wrong, or None."""
        return await self._write(plan, self._kit.port.session_id)

    async def prepare(self, plan: StoredPlan, *, session_id: str, seen: TakenBlocks) -> str | None:
        """Write down a plan that is carried out later; return what went wrong, or None.

        Args:
            plan: The plan.
            session_id: The session that it was made for; the agent may be gone by now.
            seen: The blocks that it takes away.
        """
        self._seen[plan.plan.id] = seen
        return await self._write(plan, session_id)

    async def _write(self, plan: StoredPlan, session_id: str) -> str | None:
        others = [stored for stored in self._open if stored.plan.id != plan.plan.id]
        self._keep([plan, *others[: _LOOKED_AT - 1]])
        return await self._kit.guard.store_records(session_id, [plan.record()])

    def forget(self, plan_id: str) -> None:
        """Carry out a plan no more."""
        self._open = [stored for stored in self._open if stored.plan.id != plan_id]
        self._seen.pop(plan_id, None)

    async def summarise(self, plan_id: str, layer: Layer, keys: tuple[str, ...]) -> str | None:
        """Write down what a summary layer is made of before it is applied; return what went wrong, or None.

        Args:
            plan_id: The plan that made it.
            layer: The layer.
            keys: Keys of the records of the messages that leave with it.
        """
        summary = StoredSummary(
            plan_id=plan_id,
            state=layer.state.to_json(),
            digest=layer.digest,
            keys=keys,
            previous=self._layers.plan_id(),
        )
        return await self._kit.guard.store_records(self._kit.port.session_id, [summary.record()])

    def applied(self, plan_id: str) -> None:
        """Remember in the agent's state that a plan was carried out: it and all before it are done with, and charged.

        What was prepared meanwhile may still hold, for not every plan takes messages away; `changed` tells.
        """
        self._kit.port.slot[_SLOT] = plan_id
        self.forget(plan_id)
        self._keep([stored for stored in self._open if stored.is_prepared])

    def _keep(self, plans: list[StoredPlan]) -> None:
        """Let the other plans go: what their summaries cost is charged, for no swap will bring it in.

        A summary that was prepared is charged by whoever lets go of it, and tells why.
        """
        for stored in self._open:
            is_kept = any(stored is plan for plan in plans)
            if not is_kept and not stored.is_prepared and stored.draft is not None:
                self._kit.charge(stored.draft)
        self._open = plans


def _blocks_before(view: View, end: Place) -> tuple[tuple[Block, ...], ...]:
    """Return the blocks of a context before a place, by message."""
    last = view.contents[end.message : end.message + 1]
    return (*view.contents[: end.message], *(content[: end.block] for content in last))


def _is_same(blocks: Sequence[Block], others: Sequence[Block]) -> bool:
    return len(blocks) == len(others) and all(map(operator.is_, blocks, others))


def _edits_again(plan: StoredPlan, situation: Situation) -> tuple[Edit, ...] | None:
    """Return the edits that take out of a context the very blocks that a stored plan would have.

    Args:
        plan: The stored plan.
        situation: The context, which may have grown since.

    Returns:
        These edits, and those that shorten what is oversized in the rest; None where the blocks do not stand there as
        they did, or may not be taken away.
    """
    view = situation.view
    places = {message.id: index for index, message in enumerate(view.messages)}
    wanted = [edit for edit in plan.plan.edits if edit.kind in LEAVING]
    again = [
        replace(edit, message=index, tokens=round(sum(situation.tokens[index][edit.start : edit.stop])))
        for edit in wanted
        if (index := places.get(edit.message_id)) is not None and index not in situation.pinned
    ]
    if not again or len(again) < len(wanted):
        return None
    cut = [edit for edit in again if edit.kind is EditKind.COMPRESS]
    if not cut:
        return None
    *whole, last = cut
    if any(edit.stop != len(view.contents[edit.message]) for edit in whole):
        return None
    is_part = last.stop < len(view.contents[last.message])
    if (Place(last.message, last.stop) if is_part else Place(last.message + 1, 0)) not in view.cuts:
        return None
    gone = leaving(again)
    small = plan_ladder(situation, keep_tokens=None)
    return (*(edit for edit in small if Place(edit.message, edit.start) not in gone), *again)
