"""Tell what became of a message: which compressions touched it, by which rule, and where it is now."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from ctxkit.engine.steer.keep import knows_changes, newest_change
from ctxkit.offload.changes import Changes, block_id
from ctxkit.plan import EditKind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ctxkit.engine.kit import Kit
    from ctxkit.offload.changes import Part, StoredChange

Where = Literal["context", "shortened", "cleared", "summary", "dropped", "unknown"]
"""Where something is: in the context as it was, there in a shorter form, there as one line, in the summary layer, taken out
without a summary, or nowhere that is known of."""

_AFTER: Final[dict[EditKind, Where]] = {
    EditKind.COMPRESS: "summary",
    EditKind.DROP: "dropped",
    EditKind.TRUNCATE: "shortened",
    EditKind.SHRINK: "shortened",
    EditKind.IMAGE: "shortened",
    EditKind.CLEAR: "cleared",
}
_LOOKED_AT: Final = 256
"""So many of the newest compressions are looked through."""


@dataclass(frozen=True, kw_only=True)
class Touch:
    """What one compression did to a message or a block of it."""

    plan_id: str
    reason: str
    """Why the compression was made, as `Reason` says it."""
    rule: str
    """The strategy that wanted it; empty where it has no name."""
    what: Where
    """Where it was afterwards."""
    blocks: tuple[str, ...]
    """The blocks, each as its type and id."""
    tokens: int
    """Tokens that stood there before."""
    reference: str | None = None
    """Where the original of a shortened block is stored."""
    part: int = 0
    """Of what left: which part of the conversation it is, as the summary layer counts them."""
    is_stored: bool = False
    """Whether the store has it as it stood, so that it can come back."""
    is_undone: bool = False
    """Whether the compression was taken back."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What became of a message, a block or a call."""

    id: str
    where: Where
    message_id: str | None = None
    """The message that it is, or is a part of; `None` where it is not known."""
    is_pinned: bool = False
    touched: tuple[Touch, ...] = ()
    """What compressions did to it, the newest first."""
    why: str = ""
    """The same in one sentence."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        touched = [{**asdict(touch), "blocks": list(touch.blocks)} for touch in self.touched]
        return {**asdict(self), "touched": touched}


async def explain(kit: Kit, item_id: str) -> Explanation:
    """Return what became of a message, a block or a call.

    Args:
        kit: The agent's kit.
        item_id: Id of the message, the block or the call.

    Raises:
        StoreReadError: The store cannot be read.
    """
    is_pinned = any(pin.id == item_id for pin in kit.pins.all())
    here = _in_context(kit, item_id)
    touched: list[Touch] = []
    message_id = here
    async for change, is_undone in changes_of(kit):
        for part in change.parts:
            if item_id == part.edit.message_id or item_id in map(block_id, part.blocks):
                touched.append(_touch(change, part, is_undone=is_undone))
                message_id = message_id or part.edit.message_id
    in_force = [touch for touch in touched if not touch.is_undone]
    where: Where = "unknown"
    if in_force and (here is None or in_force[0].what not in {"summary", "dropped"}):
        where = in_force[0].what
    elif here is not None:
        # Of a message of which a part has left, the rest is what it is now.
        where = "context"
    return Explanation(
        id=item_id,
        where=where,
        message_id=message_id,
        is_pinned=is_pinned,
        touched=tuple(touched),
        why=_sentence(where, in_force, is_pinned=is_pinned),
    )


def _in_context(kit: Kit, item_id: str) -> str | None:
    """Return the id of the message in the context that something is, or is a part of; None where it is not there."""
    for message in kit.port.context:
        if message.id == item_id or any(block.id == item_id for block in message.content):
            return message.id
    return None


async def changes_of(kit: Kit) -> AsyncIterator[tuple[StoredChange, bool]]:
    """Yield what was changed and is stored, the newest first, with whether it was taken back.

    What a crash kept from being carried out is left out, as far as the agent's state tells it.
    """
    if kit.guard.store is None:
        return
    changes = await Changes.read(kit.guard.store, kit.port.session_id)
    awaited = newest_change(kit.port.slot)
    is_known = knows_changes(kit.port.slot)
    async for change in changes.newest(_LOOKED_AT):
        is_undone = changes.is_undone(change.plan_id)
        # What the agent's state says is in force is, though a crash kept it from saying that it was taken back.
        if change.plan_id == awaited or not (is_known or is_undone):
            yield change, False
            awaited, is_known = change.previous, True
        elif is_undone:
            yield change, True


def _touch(change: StoredChange, part: Part, *, is_undone: bool) -> Touch:
    edit = part.edit
    what = _AFTER[edit.kind]
    return Touch(
        plan_id=change.plan_id,
        reason=str(change.reason),
        rule=edit.rule,
        what=what,
        blocks=part.blocks,
        tokens=edit.tokens,
        reference=edit.reference,
        part=change.number if what in {"summary", "dropped"} else 0,
        is_stored=bool(part.key),
        is_undone=is_undone,
    )


def _sentence(where: Where, touched: list[Touch], *, is_pinned: bool) -> str:
    return "; ".join(_words(where, touched, is_pinned=is_pinned))


def _words(where: Where, touched: list[Touch], *, is_pinned: bool) -> Iterator[str]:
    newest = touched[0] if touched else None
    by = f" by {newest.rule}" if newest is not None and newest.rule else ""
    at = f"; the original is in {newest.reference!r}" if newest is not None and newest.reference else ""
    match where:
        case "context":
            left = f", and a part of it left{by}" if newest is not None else ""
            yield f"it stands in the context as it was{left}"
        case "shortened":
            yield f"it stands in the context, shortened{by}{at}"
        case "cleared":
            yield f"one line stands in its place{by}{at}"
        case "summary":
            yield f"it left the context{by} and is part {newest.part if newest else 0} in the summary layer"
        case "dropped":
            yield f"it was taken out of the context without a summary{by}"
        case _:
            yield "nothing of this id is in the context, and no compression that is stored has touched it"
    if newest is not None and not newest.is_stored:
        yield "nothing of it is stored as it stood"
    if is_pinned:
        yield "it is pinned"
