"""Keep what a compression changes, before it changes it: without that it can be neither explained nor taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ctxkit.offload.changes import Part, Seen, StoredChange, block_name
from ctxkit.strategies.ladder import LEAVING, leaving
from ctxkit.view import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from agentscope.message import Msg

    from ctxkit.engine.planned import Planned
    from ctxkit.engine.run import Run
    from ctxkit.plan import Edit
    from ctxkit.port import Block, Piece
    from ctxkit.view import View

_SLOT: Final = "applied"
_LAYER: Final = "summary"


def newest_change(slot: Mapping[str, Any]) -> str | None:
    """Return the plan of the newest change of an agent that was not taken back; None where there is none."""
    plan_id = slot.get(_SLOT)
    return plan_id if isinstance(plan_id, str) and plan_id else None


def knows_changes(slot: Mapping[str, Any]) -> bool:
    """Whether an agent's state says which changes are in force, be it none."""
    return isinstance(slot.get(_SLOT), str)


def remember_change(slot: dict[str, Any], plan_id: str | None) -> None:
    """Keep in the agent's state which change is its newest; `None` where all were taken back."""
    slot[_SLOT] = plan_id or ""


async def keep_change(run: Run, planned: Planned) -> str | None:
    """Store what a swap is about to change; return what went wrong, or None.

    Blocks that are shortened are stored once more as they stand now, for what is stored of a tool result is its text, and
    what stands there may be a shortened form of it.

    Args:
        run: The run, which has stored what leaves.
        planned: What is about to be done.
    """
    kit, view, layer = run.kit, run.situation.view, planned.layer
    if kit.guard.store is None:
        return None
    originals: list[Msg] = [
        kit.codec.with_content(view.messages[edit.message], _blocks(view, edit))
        for edit in planned.edits
        if not _is_stored(edit)
    ]
    before = kit.port.summary
    pieces: Sequence[Block] | None = None if layer is None or isinstance(before, str) else before
    if pieces is not None:
        originals.append(kit.codec.assistant_message(pieces, name=_LAYER))  # these are no words of the user's
    keys, problem = await kit.guard.store_originals(kit.port.session_id, originals)
    if problem is not None:
        return problem
    is_whole = len(run.keys) == sum(map(_is_stored, planned.edits))
    left, own = iter(run.keys if is_whole else ()), iter(keys)
    parts = tuple(
        Part(
            edit=edit,
            key=next(left, "") if _is_stored(edit) else next(own, ""),
            blocks=tuple(names(_blocks(view, edit))),
        )
        for edit in planned.edits
    )
    change = StoredChange(
        plan_id=run.plan_id,
        reason=run.reason,
        previous=newest_change(kit.port.slot),
        messages=tuple(_seen(view, planned.edits)),
        parts=parts,
        number=0 if layer is None or not layer.state.stubs else layer.state.stubs[-1].last,
        layer_key="" if pieces is None else next(own, ""),
        layer_text=before if isinstance(before, str) else "",
        has_layer=layer is not None,
        saved=run.layers.saved(),
        media=(*_media(before), *_media(block for edit in planned.edits for block in _blocks(view, edit))),
    )
    return await kit.guard.store_records(kit.port.session_id, [change.record()])


def names(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield what tells each of some blocks."""
    return (block_name(block.type, block.id) for block in blocks)


def _blocks(view: View, edit: Edit) -> Sequence[Block]:
    return view.contents[edit.message][edit.start : edit.stop]


def _is_stored(edit: Edit) -> bool:
    """Whether what an edit takes away has been stored with the messages that leave; of empty messages nothing is."""
    return edit.kind in LEAVING and edit.stop > edit.start


def _seen(view: View, edits: Sequence[Edit]) -> Iterator[Seen]:
    gone = leaving(edits)
    touched = {edit.message for edit in edits}
    for index, (message, content) in enumerate(zip(view.messages, view.contents, strict=True)):
        left = sum(Place(index, number) not in gone for number in range(len(content)))
        is_running = view.is_running_last and index == len(view) - 1
        stays = index not in touched or left > 0 or is_running
        yield Seen(id=message.id, blocks=len(content), stays=stays)


def _media(blocks: Iterable[Block | Piece] | str) -> Iterator[str]:
    """Yield the ids of the blocks that carry the bytes of their media, wherever they stand."""
    for block in () if isinstance(blocks, str) else blocks:
        if block.type == "data" and block.source.type == "base64":
            yield block.id
        elif block.type == "tool_result":
            yield from _media(block.output)
        elif block.type == "hint":
            yield from _media(block.hint)
