"""Take a compression back: what it changed is read from the store and swapped in again, in one step."""

from __future__ import annotations

import asyncio
import base64
import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ctxkit import telemetry
from ctxkit.engine.steer.keep import newest_change, remember_change
from ctxkit.engine.steer.rebuild import CannotJoinError, rebuild
from ctxkit.errors import StoreError
from ctxkit.offload.changes import Changes, undone_record
from ctxkit.offload.redact.rules import MARK
from ctxkit.port import Swap
from ctxkit.strategies.ladder import LEAVING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from agentscope.message import DataBlock, Msg

    from ctxkit.config import Settings
    from ctxkit.engine.kit import Kit
    from ctxkit.engine.layer import Layers
    from ctxkit.offload.changes import StoredChange
    from ctxkit.port import Block, EmitEvent, Piece

logger = logging.getLogger("ctxkit")

_PIECE_CHARS: Final = 32_768
"""A longer record is parsed in a thread."""


@dataclass(frozen=True, kw_only=True)
class Undone:
    """What came of taking a compression back."""

    outcome: Literal["undone", "refused"]
    """`refused`: the context is as it was, and `why` says why."""
    plan_id: str | None = None
    """The compression; `None` where there is none."""
    why: str = ""
    messages: int = 0
    """How many messages came back, whole or in part."""
    blocks: int = 0
    """How many shortened blocks are whole again."""
    tokens_before: int | None = None
    """Tokens of the next request before; `None` where no model was at hand to count for."""
    tokens_after: int | None = None
    redacted: tuple[str, ...] = ()
    """Ids of the messages that came back in which secrets stay replaced, for they were stored so."""
    problems: tuple[str, ...] = ()
    """What went wrong on the way, one line each."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {**asdict(self), "redacted": list(self.redacted), "problems": list(self.problems)}


@dataclass(frozen=True, kw_only=True)
class Undo:
    """Takes compressions of one agent back, the newest first.

    Args:
        kit: The agent's kit.
        layers: The agent's summary layers.
        emit: Takes the event.
    """

    kit: Kit
    layers: Layers
    emit: EmitEvent

    async def carry_out(self, plan_id: str | None, settings: Settings | None) -> Undone:
        """Take a compression back.

        Args:
            plan_id: The newest one that was not taken back yet; `None` for whichever that is.
            settings: How large a request may be; `None` where no model is at hand.
        """
        newest = newest_change(self.kit.port.slot)
        store = self.kit.guard.store
        if store is None:
            why = "nothing of this agent is kept in a store that can be read: give it an offloader"
            return Undone(outcome="refused", plan_id=plan_id or newest, why=why)
        try:
            changes = await Changes.read(store, self.kit.port.session_id)
            change = await _change(changes, plan_id, newest)
            originals = await self._originals(changes, change)
            undone = await self._swap(change, originals, settings)
        except (CannotJoinError, StoreError) as exc:
            return Undone(outcome="refused", plan_id=plan_id or newest, why=str(exc))
        await self.emit(telemetry.UNDONE, undone.to_json())
        return undone

    async def _originals(self, changes: Changes, change: StoredChange) -> dict[str, Msg]:
        """Return what was stored of what the compression changed, by key."""
        if any(not part.key for part in change.parts):
            why = "what it took out of the context was not stored where it can be read back"
            raise CannotJoinError(why)
        keys = {part.key for part in change.parts} | ({change.layer_key} if change.layer_key else set())
        bodies = await changes.bodies(keys)
        missing = keys - bodies.keys()
        if missing:
            why = f"{len(missing)} of the {len(keys)} records that it stored are no longer there"
            raise CannotJoinError(why)
        media = set(change.media)
        originals = {}
        for key, body in bodies.items():
            load = self.kit.codec.load
            try:
                message = load(body) if len(body) <= _PIECE_CHARS else await asyncio.to_thread(load, body)
            except ValueError as exc:
                why = f"the record {key!r} cannot be read ({exc})"
                raise CannotJoinError(why) from exc
            originals[key] = await self._with_media(message, media) if media else message
        return originals

    async def _swap(self, change: StoredChange, originals: dict[str, Msg], settings: Settings | None) -> Undone:
        kit, view = self.kit, self.kit.view()
        context = rebuild(change, originals, view, kit.codec)
        summary: Sequence[Piece] | str | None = None
        if change.has_layer:
            layer = originals.get(change.layer_key)
            summary = change.layer_text if layer is None else layer.content  # type: ignore[assignment]  # it was made of pieces
        before = after = None
        if settings is not None:
            before, after = await self._measured(view.messages, context, summary, settings)
        swap = Swap(seen=view.messages, seen_contents=view.contents, context=context, summary=summary)
        if not await self._committed(swap, change):
            why = "the context changed meanwhile: try again"
            raise CannotJoinError(why)
        problem = await kit.guard.store_records(kit.port.session_id, [undone_record(change.plan_id)])
        _, unsaved = await kit.guard.attempt(kit.port.checkpoint)
        away = [part for part in change.parts if part.edit.kind in LEAVING]
        back = [originals[part.key] for part in change.parts]
        return Undone(
            outcome="undone",
            plan_id=change.plan_id,
            messages=len({part.edit.message for part in away}),
            blocks=len(change.parts) - len(away),
            tokens_before=before,
            tokens_after=after,
            redacted=tuple(dict.fromkeys(one.id for one in back if MARK in kit.codec.dump(one))),
            problems=tuple(each for each in (problem, unsaved) if each is not None),
        )

    async def _committed(self, swap: Swap, change: StoredChange) -> bool:
        """Swap in one step that a cancellation can delay but not tear."""
        commit = asyncio.ensure_future(self._swapped(swap, change))
        try:
            return await asyncio.shield(commit)
        except asyncio.CancelledError:
            await commit
            raise

    async def _swapped(self, swap: Swap, change: StoredChange) -> bool:
        """Swap the context and remember what its summary is made of and which change is the newest now."""
        if not await self.kit.port.swap(swap):
            return False
        self.layers.restore(change.saved)
        remember_change(self.kit.port.slot, change.previous)
        return True

    async def _measured(
        self, seen: Sequence[Msg], context: Sequence[Msg], summary: Sequence[Piece] | str | None, settings: Settings
    ) -> tuple[int, int]:
        """Return the tokens of the request before and after; refuse where it would not fit."""
        kit = self.kit
        reading = await kit.gauge.read(kit.port)
        layers = (kit.port.summary, kit.port.summary if summary is None else summary)
        after = await kit.gauge.changed(reading, seen, context, layers=layers)
        limit = settings.limit_tokens(reading.context_size)
        if kit.is_over(after, limit, reading.model_key):
            why = f"the request would have {after} tokens, and {limit} fit"
            raise CannotJoinError(why)
        return reading.tokens, after

    async def _with_media(self, message: Msg, media: Collection[str]) -> Msg:
        """Return a message whose media carry their bytes again, as far as these can be read."""
        content = [await self._whole(block, media) for block in message.content]
        if all(new is old for new, old in zip(content, message.content, strict=True)):
            return message
        return self.kit.codec.with_content(message, content)

    async def _whole(self, block: Block, media: Collection[str]) -> Block:
        codec = self.kit.codec
        if block.type == "data":
            return await self._with_bytes(block) if block.id in media else block
        inside = block.output if block.type == "tool_result" else block.hint if block.type == "hint" else ""
        if isinstance(inside, str) or not any(piece.id in media for piece in inside):
            return block
        pieces = [await self._with_bytes(one) if one.type == "data" and one.id in media else one for one in inside]
        return codec.with_output(block, pieces) if block.type == "tool_result" else codec.with_hint(block, pieces)  # type: ignore[arg-type]  # it is a hint

    async def _with_bytes(self, block: DataBlock) -> DataBlock:
        """Return a block with the bytes that its URL stands for; one whose bytes cannot be read keeps its URL."""
        store = self.kit.guard.store
        if store is None or block.source.type != "url":
            return block
        try:
            data = await store.get(_reference_of(str(block.source.url)))
        except StoreError as exc:
            logger.warning("the media of block %r keep their URL: %s", block.id, exc)
            return block
        return self.kit.codec.with_data(block, (await asyncio.to_thread(base64.b64encode, data)).decode("ascii"))


async def _change(changes: Changes, plan_id: str | None, newest: str | None) -> StoredChange:
    """Return the change that is to be taken back, or refuse."""
    if plan_id is not None and changes.is_undone(plan_id):
        why = f"plan {plan_id!r} was taken back already"
        raise CannotJoinError(why)
    if newest is None:
        why = "no compression of this agent is there to take back"
        raise CannotJoinError(why)
    if plan_id is not None and plan_id != newest:
        known = await changes.of(plan_id) is not None
        why = (
            f"plan {newest!r} came after it: take that one back first"
            if known
            else f"no plan {plan_id!r} of this session is stored"
        )
        raise CannotJoinError(why)
    change = await changes.of(newest)
    if change is None:
        why = f"what plan {newest!r} changed is not in the store"
        raise CannotJoinError(why)
    return change


def _reference_of(url: str) -> str:
    """Return the reference that `StoreOffloader` made a URL of."""
    return url2pathname(urlsplit(url).path) if url.startswith("file:") else url
