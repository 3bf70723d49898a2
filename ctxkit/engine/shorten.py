"""Carry out the edits that shorten: store the original first, then make what stands in its place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ctxkit.errors import StoreWriteError
from ctxkit.offload.redact import clear_start, redactor_of
from ctxkit.plan import EditKind
from ctxkit.results import Limits, defuse, shorten_arguments, shorten_pieces, shorten_text
from ctxkit.strategies.cleared import with_reference
from ctxkit.strategies.images import is_image
from ctxkit.strategies.ladder import LEAVING, REPLACING
from ctxkit.tokens import CHARS, Ruler
from ctxkit.view import Place

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from agentscope.message import DataBlock, ToolResultBlock

    from ctxkit.config import Settings
    from ctxkit.offload import OffloadGuard
    from ctxkit.plan import Edit
    from ctxkit.port import Block, Codec, Piece
    from ctxkit.view import View


_STORED_BEFORE = frozenset({"shortened", "recalled", "shrunk", "cleared"})
"""A result with one of these marks is no original; where that is, its mark says."""


@dataclass(frozen=True, kw_only=True)
class Shortened:
    """What came of the edits that shorten."""

    edits: tuple[Edit, ...]
    """The edits with the references of the stored originals; those that were given up are left out."""
    replacements: dict[Place, Block]
    problems: tuple[str, ...]
    is_complete: bool = True
    """Nothing was given up because its original could not be stored."""


@dataclass(frozen=True, kw_only=True)
class ShortenEdits:
    """Shortens blocks of one agent's context.

    Args:
        codec: Makes the copies.
        guard: Stores the originals.
        ruler: Measures in the tokens of the model at hand.
        settings: How to shorten.
        session_id: Where the originals are stored.
        media_tokens: Tokens of one image or file.
        prior_ratio: Tokens that the ruler counts in a block, for each token that the model's own tokenizer does.
        head_and_tail: Keep of any text its beginning and its end, whatever kind it is.
    """

    codec: Codec
    guard: OffloadGuard
    ruler: Ruler
    settings: Settings
    session_id: str
    media_tokens: Callable[[DataBlock], int]
    prior_ratio: Callable[[Block], Awaitable[float]]
    head_and_tail: bool = False

    async def carry_out(self, view: View, edits: Sequence[Edit]) -> Shortened:
        """Store the original of each edit that shortens, and make its replacement."""
        done: list[Edit] = []
        replacements: dict[Place, Block] = {}
        problems: list[str] = []
        is_complete = True
        for edit in edits:
            if edit.kind in LEAVING:
                done.append(edit)
                continue
            place = Place(edit.message, edit.start)
            block = view.contents[edit.message][edit.start]
            if edit.kind is EditKind.IMAGE:
                try:
                    replacements[place] = await self._without_images(
                        block, edit.images, role=view.messages[edit.message].role
                    )
                    done.append(edit)
                except StoreWriteError as exc:
                    problems.append(str(exc))
                    is_complete = False
                continue
            if edit.kind in REPLACING and not is_complete:
                continue  # it is done for room alone: no second try at a store that is down
            reference, problem = await self._stored(block)
            if problem is not None:
                problems.append(problem)
            if problem is not None and reference is None:
                is_complete = False
                continue
            if edit.kind in REPLACING:
                short = self._replaced(block, edit, reference)
            else:
                short = await self.truncated(block, edit, reference=reference)
            if await self._size(short) < await self._size(block):
                replacements[place] = short
                done.append(replace(edit, reference=reference))
        return Shortened(
            edits=tuple(done), replacements=replacements, problems=tuple(problems), is_complete=is_complete
        )

    async def truncated(self, block: Block, edit: Edit, *, reference: str | None) -> Block:
        """Return a copy of a block as a `TRUNCATE` edit wants it: of so many tokens, or head and tail of so many characters."""
        if edit.keep_chars is None:
            return await self.shorten(block, limit_tokens=edit.keep_tokens, reference=reference)
        by_chars = replace(self, ruler=Ruler(CHARS), media_tokens=_nothing, prior_ratio=_as_it_is, head_and_tail=True)
        return await by_chars.shorten(block, limit_tokens=edit.keep_chars, reference=reference)

    async def shorten(self, block: Block, *, limit_tokens: int, reference: str | None, is_lost: bool = False) -> Block:
        """Return a copy of a block that has at most `limit_tokens` tokens of the model at hand.

        Args:
            block: The original.
            limit_tokens: Most tokens.
            reference: Where the original is stored; `None` where it is not.
            is_lost: It should have been stored and could not be, which the marker says.
        """
        limit_tokens = max(1, int(limit_tokens * await self.prior_ratio(block)))
        limits = self._limits(limit_tokens, tool=block.name if block.type == "tool_result" else "", is_lost=is_lost)
        if block.type == "tool_result":
            return await self._result(block, limits, reference)
        if block.type == "tool_call":
            arguments = await shorten_arguments(block.input, limits=limits, ruler=self.ruler, reference=reference)
            return self.codec.with_input(block, arguments)
        if block.type == "hint" and not isinstance(block.hint, str):
            pieces = await self._pieces(block.hint, "", limits, reference)
            return self.codec.with_hint(block, pieces)
        kept = await shorten_text(_text_of(block), tool_name="", limits=limits, ruler=self.ruler, reference=reference)
        return self.codec.with_text(block, kept)

    def _replaced(self, block: Block, edit: Edit, reference: str | None) -> Block:
        """Return a block in which an edit's text stands; cleared, a tool result keeps nothing else."""
        is_cleared = edit.kind is EditKind.CLEAR
        text = edit.text or ""
        if is_cleared:
            recall = self.settings.offload.recall_tools and self.guard.is_recallable
            text = with_reference(text, reference, recall=recall)
        if block.type == "tool_result":
            mark = {"admitted": True, "cleared" if is_cleared else "shrunk": True, "reference": reference}
            media = [] if is_cleared or isinstance(block.output, str) else [p for p in block.output if p.type == "data"]
            return self.codec.with_output(block, [self.codec.text(text), *media] if media else text, mark=mark)
        if block.type == "hint" and not isinstance(block.hint, str):
            return self.codec.with_hint(block, [self.codec.text(text)])
        return self.codec.with_text(block, text)

    async def _size(self, block: Block) -> int:
        """Return the tokens of a block; a marker that names a long reference may take more than a short text."""
        media = sum(self.media_tokens(piece) for piece in _pieces_of(block) if piece.type == "data")
        return await self.ruler.count(_text_of(block)) + media

    async def _result(self, block: ToolResultBlock, limits: Limits, reference: str | None) -> ToolResultBlock:
        pieces = [self.codec.text(block.output)] if isinstance(block.output, str) else block.output
        kept = await self._pieces(pieces, block.name, limits, reference)
        return self.codec.with_output(block, kept, mark={"admitted": True, "shortened": True, "reference": reference})

    async def _pieces(self, pieces: Sequence[Piece], tool: str, limits: Limits, reference: str | None) -> list[Piece]:
        return await shorten_pieces(
            pieces,
            tool_name=tool,
            limits=limits,
            ruler=self.ruler,
            codec=self.codec,
            reference=reference,
            media_tokens=self.media_tokens,
        )

    def _limits(self, tokens: int, *, tool: str, is_lost: bool) -> Limits:
        results, redactor = self.settings.results, redactor_of(self.settings.privacy)
        return Limits(
            tokens=tokens,
            head_ratio=results.head_ratio,
            placement=results.marker,
            verbatim=tool in results.verbatim_tools,
            head_and_tail=self.head_and_tail,
            recall=self.settings.offload.recall_tools and self.guard.is_recallable,
            is_lost=is_lost,
            clear_start=partial(clear_start, redactor=redactor) if redactor is not None else None,
        )

    async def _stored(self, block: Block) -> tuple[str | None, str | None]:
        """Store the original of a block; return its reference, and why it could not be stored."""
        if block.type == "tool_result":
            mark = block.metadata.get("ctxkit")
            if isinstance(mark, dict) and not _STORED_BEFORE.isdisjoint(name for name in mark if mark[name]):
                return mark.get("reference"), None  # the original went when it was shortened first, or was read back
            stored = await self.guard.store_result(self.session_id, block)
        elif block.type == "tool_call":
            original = self.codec.result(block.input, id=f"{block.id}-arguments", name=block.name)
            stored = await self.guard.store_result(self.session_id, original)
        else:
            text = _text_of(block)
            stored = await self.guard.store_result(
                self.session_id, self.codec.result(text, id=block.id, name=block.type)
            )
        return stored.reference, stored.error

    async def _without_images(self, block: Block, count: int, *, role: str) -> Block:
        """Return a block whose oldest images are replaced by notes that say where they are, all of them or none."""
        if block.type == "tool_result" and not isinstance(block.output, str):
            return self.codec.with_output(block, await self._noted(block.output, count))
        if block.type == "hint" and not isinstance(block.hint, str):
            return self.codec.with_hint(block, await self._noted(block.hint, count))
        if block.type == "data":
            note = await self._image_note(block)
            return self.codec.text(note) if role == "user" else self.codec.hint(note)
        return block

    async def _noted(self, pieces: Sequence[Piece], count: int) -> list[Piece]:
        """Return pieces with the first so many images replaced by notes."""
        noted: list[Piece] = []
        left = count
        for piece in pieces:
            if left > 0 and piece.type == "data" and is_image(piece):
                noted.append(self.codec.text(await self._image_note(piece)))
                left -= 1
            else:
                noted.append(piece)
        return noted

    async def _image_note(self, image: DataBlock) -> str:
        """Return the host's own words for an image that leaves.

        Raises:
            StoreWriteError: There is a place for it, but it could not be stored.
        """
        name = f"named '{image.name}' " if image.name else ""
        url = str(image.source.url) if image.source.type == "url" else None
        if url is None:
            stored = await self.guard.store_data(self.session_id, image)
            url = str(stored.source.url) if stored is not None and stored.source.type == "url" else None
            if url is None and self.guard.takes_media:
                msg = f"The image {name}could not be stored, and so it stays in the context. Mend the offloader."
                raise StoreWriteError(msg)
        if url is None:
            return f"<system-reminder>The image {name}is removed to free up context space.</system-reminder>"
        return (
            f"<system-reminder>The image {name}is offloaded into {defuse(url)}, "
            "you can refer to it when needed.</system-reminder>"
        )


def _nothing(_: DataBlock) -> int:
    """Return what an image or a file takes where characters are counted."""
    return 0


async def _as_it_is(_: Block) -> float:
    """Return that characters are the same for every model."""
    return 1.0


def _text_of(block: Block) -> str:
    """Return the text of a text block, of a hint or a result, or the arguments of a call."""
    if block.type == "text":
        return block.text
    if block.type == "tool_call":
        return block.input
    if block.type == "tool_result" and isinstance(block.output, str):
        return block.output
    if block.type == "hint" and isinstance(block.hint, str):
        return block.hint
    return "\n".join(piece.text for piece in _pieces_of(block) if piece.type == "text")


def _pieces_of(block: Block) -> Sequence[Piece]:
    """Return the pieces inside a tool result or a hint, if it is made of such."""
    if block.type == "tool_result" and not isinstance(block.output, str):
        return block.output
    if block.type == "hint" and not isinstance(block.hint, str):
        return block.hint
    return ()
