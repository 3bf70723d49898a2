"""What is cut and left out of one request that does not fit; no model is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxkit.plan import EditKind
from ctxkit.strategies import CompressStrategy
from ctxkit.strategies.compress import newest_messages
from ctxkit.strategies.drop_turns import drop_turns
from ctxkit.strategies.ladder import freed_tokens, leaving, lighter, shorten_more
from ctxkit.strategies.old_results import cut_edit
from ctxkit.tokens import block_chars
from ctxkit.view import Place

if TYPE_CHECKING:
    from ctxkit.plan import Edit
    from ctxkit.strategies import Situation

_FIRST_FLOOR_TOKENS = 256
"""Blocks are lowered to this before messages are left out; only then further."""
_NOTE_TOKENS = 200
"""Room for the note that says what was left out."""


def plan_emergency(situation: Situation, target_tokens: int) -> tuple[Edit, ...]:
    """Return what is cut and what is left out, oldest first, until a request has at most so many tokens.

    Where `OverflowConfig.keep_messages_ratio` says how many messages stay, the others go first, and those that stay are cut
    only as far as they must be. Otherwise big blocks are cut before messages go.

    Args:
        situation: The request and what it weighs.
        target_tokens: Tokens that it should have.
    """
    over = situation.request_tokens - target_tokens
    newest = _newest_tokens(situation)
    edits = () if newest is None else CompressStrategy(keep_tokens=newest, kind=EditKind.DROP).plan_edits(situation)
    edits = shorten_more(
        situation, edits, free_tokens=over - freed_tokens(situation, edits), floor_tokens=_FIRST_FLOOR_TOKENS
    )
    if freed_tokens(situation, edits) >= over:
        return edits
    request = sum(sum(situation.tokens[index]) for index in situation.view.latest_request)
    keep = max(0.0, target_tokens - situation.fixed_tokens - request - _NOTE_TOKENS)
    keep = keep if newest is None else min(keep, newest)
    dropped = CompressStrategy(keep_tokens=keep, kind=EditKind.DROP).plan_edits(lighter(situation, edits))
    gone = leaving(dropped)
    edits = (*(edit for edit in edits if Place(edit.message, edit.start) not in gone), *dropped)
    return shorten_more(situation, edits, free_tokens=over - freed_tokens(situation, edits))


def plan_limits(situation: Situation) -> tuple[Edit, ...]:
    """Return what `OverflowConfig.max_turns`, `result_chars` and `text_chars` say of a request; nothing where they are unset.

    The newest turns stay, the running one among them, and long results and user texts keep their beginning and their end.
    """
    view, overflow = situation.view, situation.settings.overflow
    older = () if overflow.max_turns is None else view.user_turns[: -overflow.max_turns]
    dropped = drop_turns(situation, older)
    gone = leaving(dropped)
    cuts = []
    for place, block in view.blocks():
        is_text = block.type == "text" and view.messages[place.message].role == "user"
        most = overflow.result_chars if block.type == "tool_result" else overflow.text_chars if is_text else None
        if most is not None and place not in gone and place.message not in situation.pinned:
            too_long = block_chars(block) > most
            cuts += [cut_edit(situation, place, keep_chars=most, rule="overflow")] if too_long else []
    return (*cuts, *dropped)


def _newest_tokens(situation: Situation) -> float | None:
    """Return the tokens of the newest messages that may stay; `None` where nobody says how many."""
    share, messages = situation.settings.overflow.keep_messages_ratio, situation.settings.ladder.keep_messages
    return None if share is None or messages is None else newest_messages(situation, int(share * messages))
