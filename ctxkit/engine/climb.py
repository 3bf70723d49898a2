"""The climb: of all that could be done to a context, the cheapest that makes enough room, one rung after the other."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ctxkit.config import SUMMARY_RUNG
from ctxkit.engine.apply import apply_edits
from ctxkit.invariants import broken_rules, misplaced
from ctxkit.plan import EditKind
from ctxkit.strategies.compress import newest_chunks, newest_messages, staying
from ctxkit.strategies.ladder import (
    LEAVING,
    freed_tokens,
    leaving,
    lighter,
    plan_ladder,
    ruled,
    shorten_more,
    sized,
    stacked,
)
from ctxkit.strategies.registry import name_of, strategy_of
from ctxkit.strategies.turn_stages import TurnStages
from ctxkit.tokens import serve_loop
from ctxkit.view import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctxkit.plan import Edit
    from ctxkit.port import Codec
    from ctxkit.strategies import Situation

logger = logging.getLogger("ctxkit")

_WORTH_RATIO = 0.5
"""Where no price decides: a rung that breaks the prompt cache and frees less than this share of what the summary would is
followed by it soon: then the cache is broken twice, so the summary is made at once."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What a climb came to."""

    edits: tuple[Edit, ...]
    summary: tuple[Edit, ...] = ()
    """What the rung of the summary would do, whether it was chosen or not."""
    beside: tuple[Edit, ...] = ()
    """What may be done for nothing among the messages that stay, where a new summary stands before them."""
    why: str = ""
    problems: tuple[str, ...] = ()
    """Which strategies were left out, and why, one line each."""


@dataclass(frozen=True, kw_only=True)
class Aim:
    """What a climb is to come to, in tokens."""

    goal_tokens: float
    """The request has at most so many afterwards, where no summary is made."""
    fit_tokens: float
    """The request has at most so many afterwards; what stays is touched for no more than that."""
    limit_tokens: float
    """The request may have so many at most."""
    due_tokens: float
    """A compression is due from so many tokens on; what goes by turns ends below it."""
    layer_tokens: float
    """A new summary layer takes so many at least."""
    worth_tokens: float
    """Edits that free less are not worth a broken prompt cache."""
    more_layer_tokens: float = 0.0
    """It is larger than the one that is there by so many at least."""
    summary_tokens: float = 0.0
    """Where prices decide: a summary that frees no more beyond what clearing frees is not worth its price."""
    keep_tokens: float
    """The newest messages that stay have so many, where `LadderConfig.keep_messages` says nothing."""
    keep_messages: int | None = None
    """So many of the newest messages stay; a limit on their number asked for it."""
    keep_turns: int | None = None
    """So many of the newest turns stay; a limit on their number asked for it."""
    force: bool = False
    """Make the summary though it frees little."""
    wants_summary: bool = False
    """Go on to the rung of the summary, even where one before it makes enough room."""
    is_priced: bool = False
    """Prices made it due, so that each token that stays is to be worth its reads."""


@dataclass(kw_only=True)
class Climb:
    """One climb over one context; nothing is stored and no model is asked.

    Args:
        situation: The context and what it weighs.
        aim: What is to be reached.
        codec: Makes the copies that the rules are asked about.
    """

    situation: Situation
    aim: Aim
    codec: Codec
    problems: list[str] = field(default_factory=list)

    async def choose(self) -> Chosen:
        """Return the edits of the first rung that makes enough room, with those of the rungs before it."""
        chosen = await self._choose()
        return replace(chosen, problems=tuple(self.problems))

    async def _choose(self) -> Chosen:
        base = plan_ladder(self.situation, keep_tokens=None)
        await serve_loop()
        rungs = self._rungs()
        top = rungs.index(SUMMARY_RUNG) if SUMMARY_RUNG in rungs else len(rungs)
        # Beside the loop: it looks at every block of the context.
        summary = await asyncio.to_thread(self._summary) if top < len(rungs) else ()
        has_room = self._left(base) <= self.aim.goal_tokens
        if leaving(base) and has_room and not (self.aim.wants_summary or self.aim.force):
            return Chosen(edits=base, summary=summary, why="the limit of the history made enough room")
        edits, added = base, list[tuple["Edit", ...]]()
        for rung in rungs[:top]:
            more = await self._rung(rung, edits)
            if more:
                edits = stacked(edits, more)
                added.append(more)
                if self._is_enough(base, edits, summary) or self._is_met(rung, edits):
                    why = f"{more[0].rule} made enough room"
                    return Chosen(edits=edits, summary=summary, beside=self._beside(edits), why=why)
        if not self._pays(summary):
            edits = self._without_summary(base, edits)
            if not leaving(summary) or self._left(edits) <= self.aim.limit_tokens:
                why = "" if edits else "nothing would free enough to be worth it"
                return Chosen(edits=edits, summary=summary, why=why)
        edits = summary
        for rung in rungs[top + 1 :]:
            added.append(await self._rung(rung, edits))
        for more in added:
            # What stays is touched where it must be, or where prices decide: the new summary stands before it, so that it
            # is written to the cache anew in any case.
            if self.aim.is_priced or self._left(edits) + self.aim.layer_tokens > self.aim.fit_tokens:
                edits = stacked(edits, more)
        beside = self._beside(edit for more in added for edit in more)
        return Chosen(edits=edits, summary=summary, beside=beside, why="the oldest messages make room")

    async def clear(self, places: frozenset[Place]) -> tuple[Edit, ...]:
        """Return what the rungs before the summary would put in place of some blocks, whatever made a compression due."""
        rungs = self.situation.settings.ladder.rungs_where(is_priced=True)
        edits: tuple[Edit, ...] = ()
        for rung in rungs[: rungs.index(SUMMARY_RUNG) if SUMMARY_RUNG in rungs else len(rungs)]:
            more = await self._rung(rung, edits)
            edits = stacked(edits, (edit for edit in more if edit.kind not in LEAVING and _is_within(edit, places)))
        return edits

    def _rungs(self) -> tuple[object, ...]:
        """Return the rungs of this climb; those that go by turns are one where the number of turns decides between them."""
        ladder, aim = self.situation.settings.ladder, self.aim
        rungs = ladder.rungs_where(is_priced=aim.is_priced)
        halve = "drop_turns" in rungs and (aim.keep_turns is not None or aim.force)
        if not halve and ladder.texts_below_turns is None:
            return rungs
        replaced = {"drop_turns"} if ladder.texts_below_turns is None else {"drop_turns", "turn_texts"}
        at = 0 if halve else next((index for index, rung in enumerate(rungs) if rung in replaced), None)
        if at is None:
            return rungs
        stages = TurnStages(most_tokens=aim.due_tokens, texts_below=ladder.texts_below_turns, halve=halve)
        before, behind = rungs[:at], [rung for rung in rungs[at:] if rung not in replaced]
        return (*before, stages, *behind)

    def _is_met(self, rung: object, edits: Sequence[Edit]) -> bool:
        """Whether what goes by turns has done all that was asked for; it is measured by the trigger, not by prices."""
        is_asked = isinstance(rung, TurnStages) and (rung.halve or not self.aim.wants_summary)
        return is_asked and self._left(edits) <= self.aim.due_tokens

    def _beside(self, edits: Iterable[Edit]) -> tuple[Edit, ...]:
        return tuple(edit for edit in edits if edit.kind not in LEAVING) if self.aim.is_priced else ()

    def _left(self, edits: Sequence[Edit]) -> float:
        return self.situation.request_tokens - freed_tokens(self.situation, edits)

    def _is_enough(self, base: Sequence[Edit], edits: Sequence[Edit], summary: Sequence[Edit]) -> bool:
        """Whether edits without a summary meet the goal, and so well that the next ones are not due at once."""
        aim, here = self.aim, self.situation
        freed = freed_tokens(here, edits) - freed_tokens(here, base)
        if aim.wants_summary or self._left(edits) > aim.goal_tokens or freed < aim.worth_tokens:
            return False
        if not aim.is_priced:
            return freed >= _WORTH_RATIO * (freed_tokens(here, summary) - aim.layer_tokens)
        more = freed_tokens(here, stacked(edits, summary)) - freed_tokens(here, edits)
        return more - aim.more_layer_tokens < aim.summary_tokens or not summary

    def _pays(self, summary: Sequence[Edit]) -> bool:
        """Whether what the summary would take away is worth one."""
        taken = sum(edit.tokens for edit in summary if edit.kind in LEAVING)
        return taken > 0 and (self.aim.force or taken >= self.aim.worth_tokens)

    def _without_summary(self, base: tuple[Edit, ...], climbed: tuple[Edit, ...]) -> tuple[Edit, ...]:
        """Return the edits where no summary is made: those of the rungs if they are worth it, cut further if need be."""
        is_over = self.situation.request_tokens > self.aim.limit_tokens
        freed = freed_tokens(self.situation, climbed) - freed_tokens(self.situation, base)
        is_by_turns = self.situation.settings.ladder.texts_below_turns is not None and freed > 0
        edits = climbed if is_over or is_by_turns or freed >= self.aim.worth_tokens else base
        free = self._left(edits) - self.aim.fit_tokens
        return shorten_more(self.situation, edits, free_tokens=free) if is_over and free > 0 else edits

    def _summary(self) -> tuple[Edit, ...]:
        """Return the edits of the rung of the summary: how much stays is settled before the summary is asked for."""
        here, aim, ladder = self.situation, self.aim, self.situation.settings.ladder
        stays = sum(sum(here.tokens[index]) for index in staying(here))
        room = aim.fit_tokens - here.fixed_tokens - aim.layer_tokens - stays
        messages = ladder.keep_messages if aim.keep_messages is None else aim.keep_messages
        if aim.keep_turns is not None:
            keep = _newest_turns(here, aim.keep_turns)
        elif messages is None and ladder.chunks is not None:
            keep = newest_chunks(here, ladder.chunks, most_tokens=here.settings.history_tokens(here.context_size))
        else:
            keep = aim.keep_tokens if messages is None else newest_messages(here, messages)
            if aim.keep_messages is None and messages is not None:
                room = self._most_room(keep)
        kind = EditKind.DROP if ladder.strategy == "truncate" else EditKind.COMPRESS
        return plan_ladder(here, keep_tokens=max(0.0, min(keep, room)), kind=kind)

    def _most_room(self, keep_tokens: float) -> float:
        """Return the tokens that so many of the newest messages may have where somebody says how many stay.

        They stay as long as the request fits, though it may be over its trigger again at once; a cooldown is for that.

        Args:
            keep_tokens: Tokens of the messages that are to stay.
        """
        here, aim = self.situation, self.aim
        cut = here.view.cut_for(here.tokens, keep_tokens)
        before = sum(sum(here.tokens[index]) for index in staying(here) if index < cut.message)
        return aim.limit_tokens - here.fixed_tokens - aim.layer_tokens - before

    async def _rung(self, rung: object, edits: Sequence[Edit]) -> tuple[Edit, ...]:
        """Return what one rung does beyond the edits so far; nothing where it frees nothing, fails or breaks a rule."""
        await serve_loop()
        strategy = strategy_of(rung, self.situation.settings)
        name = name_of(strategy)
        left = lighter(self.situation, edits)
        here = replace(left, request_tokens=round(self._left(edits)))
        try:
            # Beside the loop: it may look at thousands of blocks, and it may be a user's.
            planned = await asyncio.to_thread(lambda: tuple(strategy.plan_edits(here)))
            problem = self._problem(planned)
        except Exception as exc:
            logger.exception("the strategy %r failed", name)
            planned, problem = (), f"it raised {type(exc).__name__}: {exc}"
        if problem is not None:
            logger.warning("the edits of the strategy %r are left out: %s", name, problem)
            self.problems.append(f"the edits of the strategy {name!r} were left out: {problem}")
            return ()
        # What leaves may be one half of a pair: it goes whole, however little of it is.
        useful = tuple(
            edit for edit in map(sized, ruled(name, planned)) if edit.kind in LEAVING or freed_tokens(left, [edit]) > 0
        )
        return useful if self._left(stacked(edits, useful)) < self._left(edits) else ()

    def _problem(self, edits: Sequence[Edit]) -> str | None:
        """Say which rule edits of a strategy break; None where they break none."""
        view, pinned = self.situation.view, self.situation.pinned
        for edit in edits:
            problem = misplaced(view, edit, pinned=pinned)
            if problem is not None:
                return problem
        if not leaving(edits):
            return None
        after = view.changed(apply_edits(view, edits, {}, self.codec))
        return next(iter(broken_rules(view, after, tokens_before=1, tokens_after=0, pinned=pinned)), None)


def _is_within(edit: Edit, places: frozenset[Place]) -> bool:
    return all(Place(edit.message, block) in places for block in range(edit.start, edit.stop))


def _newest_turns(situation: Situation, number: int) -> float:
    """Return the tokens of so many of the newest turns."""
    turns = situation.view.user_turns
    first = turns[-number].start if 0 < number <= len(turns) else 0 if number else len(situation.view)
    return sum(map(sum, situation.tokens[first:]))
