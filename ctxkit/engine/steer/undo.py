"""Take a compression back: what it changed is read from the store and swapped in again, in one step."""

from __future__ import annotations

import asyncio
import base64
import logging
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ctxkit import telemetry
from ctxkit.engine.steer.keep import newest_change, remember_change
from ctxkit.engine.steer.rebuild import CannotJoinError, rebuild
from ctxkit.offload.changes import Changes, undone_record
from ctxkit.offload.redact.rules import MARK
from ctxkit.port import Swap
from ctxkit.strategies.ladder import LEAVING
from ctxkit.tokens import serve_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from agentscope.message import DataBlock, Msg

    from ctxkit.config import Settings
    from ctxkit.engine.kit import Kit
    from ctxkit.engine.layer import Layers
    from ctxkit.offload.changes import StoredChange
    from ctxkit.port import Block, Piece

logger = logging.getLogger("ctxkit")

_PIECE_CHARS: Final = 32_768
"""A longer record is parsed in a thread."""
_MOST_STEPS: Final = 256
"""So many of the newest compressions are looked through to say why one cannot be taken back."""


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
        swapped: Called in the same step as the swap.
    """

    kit: Kit
    layers: Layers
    swapped: Callable[[], None]

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
            changes = await self._read(Changes.read, store, self.kit.port.session_id)
            change = await self._change(changes, plan_id, newest)
            bodies = await self._bodies(changes, change)
            return await self._swap(change, bodies, settings)
        except CannotJoinError as exc:
            return Undone(outcome="refused", plan_id=plan_id or newest, why=str(exc))

    async def _read(self, call: Callable[..., Any], *args: object) -> Any:
        """Return what is read of the store; what it fails with, or that it takes too long, is a reason to refuse."""
        value, problem = await self.kit.guard.attempt(call, *args)
        if problem is not None:
            raise CannotJoinError(problem)
        return value

    async def _change(self, changes: Changes, plan_id: str | None, newest: str | None) -> StoredChange:
        """Return the change that is to be taken back, or refuse; what the agent's state says is in force is."""
        if newest is None or (plan_id is not None and plan_id != newest):
            raise CannotJoinError(await self._read(_why_not, changes, plan_id, newest))
        change: StoredChange | None = await self._read(changes.of, newest)
        if change is None:
            why = f"what plan {newest!r} changed is not in the store"
            raise CannotJoinError(why)
        return change

    async def _bodies(self, changes: Changes, change: StoredChange) -> dict[str, str]:
        """Return what was stored of what the compression changed, by key."""
        if any(not part.key for part in change.parts):
            why = "what it took out of the context was not stored where it can be read back"
            raise CannotJoinError(why)
        keys = {part.key for part in change.parts} | ({change.layer_key} if change.layer_key else set())
        bodies: dict[str, str] = await self._read(changes.bodies, keys)
        missing = keys - bodies.keys()
        if missing:
            why = f"{len(missing)} of the {len(keys)} records that it stored are no longer there"
            raise CannotJoinError(why)
        return bodies

    async def _originals(self, bodies: Mapping[str, str], media: Collection[str]) -> dict[str, Msg]:
        """Return the messages of records, by key, their media with bytes."""
        originals = {}
        for key, body in bodies.items():
            load = self.kit.codec.load
            try:
                message = load(body) if len(body) <= _PIECE_CHARS else await asyncio.to_thread(load, body)
            except ValueError as exc:
                why = f"the record {key!r} cannot be read ({exc})"
                raise CannotJoinError(why) from exc
            originals[key] = await self._with_media(message, media) if media else message
            await serve_loop()
        return originals

    async def _swap(self, change: StoredChange, bodies: Mapping[str, str], settings: Settings | None) -> Undone:
        originals = await self._originals(bodies, set(change.media))
        kit, view = self.kit, self.kit.view()
        context = rebuild(change, originals, view, kit.codec)
        summary: Sequence[Piece] | str | None = None
        if change.has_layer:
            layer = originals.get(change.layer_key)
            summary = change.layer_text if layer is None else _pieces_of(layer)
        before = after = None
        if settings is not None:
            before, after = await self._measured(view.messages, context, summary, settings)
        swap = Swap(seen=view.messages, seen_contents=view.contents, context=context, summary=summary)
        away = [part for part in change.parts if part.edit.kind in LEAVING]
        undone = Undone(
            outcome="undone",
            plan_id=change.plan_id,
            messages=len({part.edit.message for part in away}),
            blocks=len(change.parts) - len(away),
            tokens_before=before,
            tokens_after=after,
            redacted=tuple(dict.fromkeys(part.edit.message_id for part in change.parts if MARK in bodies[part.key])),
        )
        commit = asyncio.ensure_future(self._commit(swap, change, undone))
        try:
            return await asyncio.shield(commit)
        except asyncio.CancelledError:
            # The swap cannot be torn. Another cancellation ends what comes behind it, and the agent's state tells all.
            with suppress(Exception):
                await commit
            raise

    async def _commit(self, swap: Swap, change: StoredChange, undone: Undone) -> Undone:
        """Swap, bring to disk that it was done, and tell it.

        The agent's state says which compressions are in force; a crash before it is saved leaves what was saved before.
        """
        kit = self.kit
        if not await kit.port.swap(swap):
            why = "the context changed meanwhile: try again"
            raise CannotJoinError(why)
        self.layers.restore(change.saved)
        remember_change(kit.port.slot, change.previous)
        self.swapped()
        problem = await kit.guard.store_records(kit.port.session_id, [undone_record(change.plan_id)])
        _, unsaved = await kit.guard.attempt(kit.port.checkpoint)
        undone = replace(undone, problems=tuple(each for each in (problem, unsaved) if each is not None))
        kit.tell_later(telemetry.UNDONE, **undone.to_json())
        return undone

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
        if block.type == "tool_result" and (pieces := await self._whole_pieces(block.output, media)) is not None:
            return codec.with_output(block, pieces)
        if block.type == "hint" and (pieces := await self._whole_pieces(block.hint, media)) is not None:
            return codec.with_hint(block, pieces)
        return block

    async def _whole_pieces(self, inside: Sequence[Piece] | str, media: Collection[str]) -> list[Piece] | None:
        """Return the pieces of a result or a hint with the bytes of their media; None where none of them is meant."""
        if isinstance(inside, str) or not any(piece.id in media for piece in inside):
            return None
        return [await self._with_bytes(one) if one.type == "data" and one.id in media else one for one in inside]

    async def _with_bytes(self, block: DataBlock) -> DataBlock:
        """Return a block with the bytes that its URL stands for; one whose bytes cannot be read keeps its URL."""
        store = self.kit.guard.store
        if store is None or block.source.type != "url":
            return block
        data, problem = await self.kit.guard.attempt(store.get, _reference_of(str(block.source.url)))
        if problem is not None:
            logger.warning("the media of block %r keep their URL: %s", block.id, problem)
            return block
        return self.kit.codec.with_data(block, (await asyncio.to_thread(base64.b64encode, data)).decode("ascii"))


async def _why_not(changes: Changes, plan_id: str | None, newest: str | None) -> str:
    """Return why a plan is not the newest one that is in force."""
    if plan_id is None:
        return "no compression of this agent is there to take back"
    if changes.is_undone(plan_id):
        return f"plan {plan_id!r} was taken back already"
    if await changes.of(plan_id) is None:
        return f"no plan {plan_id!r} of this session is stored"
    at, steps = newest, 0
    while at is not None and at != plan_id and steps < _MOST_STEPS:
        change = await changes.of(at)
        at, steps = None if change is None else change.previous, steps + 1
    if at is None:
        return f"plan {plan_id!r} is not in force: it was taken back already, or was never carried out"
    return f"plan {newest!r} came after it: take that one back first"


def _pieces_of(layer: Msg) -> list[Piece]:
    """Return what a summary layer is made of."""
    return [block for block in layer.content if block.type in ("text", "data")]


def _reference_of(url: str) -> str:
    """Return the reference that `StoreOffloader` made a URL of."""
    return url2pathname(urlsplit(url).path) if url.startswith("file:") else url
