"""The host's offloader protocol on any store: messages become records, tool results and media become blobs."""

import asyncio
import binascii
import mimetypes
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Protocol

from ctxkit.errors import ConfigError, StoreWriteError
from ctxkit.offload.capabilities import Streams
from ctxkit.offload.names import result_name
from ctxkit.offload.provenance import provenance_of
from ctxkit.offload.redact import DEFAULT_REDACTOR, Redactor, redact_body
from ctxkit.offload.result_bytes import result_chunks
from ctxkit.offload.store import MESSAGE, Record, Store, record_key
from ctxkit.port import Codec

if TYPE_CHECKING:
    from agentscope.message import DataBlock, Msg, ToolResultBlock

    from ctxkit.port import Block, Piece

_PIECE_CHARS: Final = 32_768
"""Text is dumped, encoded and decoded in pieces of this size, with a pause between them for other tasks."""

RESULT_BYTES: Final = 64 << 20
"""Default of `StoreOffloader.result_bytes`: more than any tool's output that somebody reads again."""

_EXTENSION: Final = re.compile(r"\.[a-z0-9]{1,10}")

_TOLD: Final[ContextVar[list[str] | None]] = ContextVar("ctxkit_stored_keys", default=None)


@contextmanager
def told_keys() -> Iterator[list[str]]:
    """Collect the keys of the records that are stored inside, in order.

    The host's protocol returns one reference for all messages, and the object that is called may be anybody's own round
    a `StoreOffloader`: so the keys come out beside it.
    """
    keys: list[str] = []
    token = _TOLD.set(keys)
    try:
        yield keys
    finally:
        _TOLD.reset(token)


class Offloader(Protocol):
    """What takes content that leaves a context; AgentScope's own protocol, to which an object conforms by its methods.

    `offload_data_block` may be missing. What raises, hangs or returns no usable reference costs a warning, never data.
    """

    async def offload_context(self, session_id: str, msgs: "list[Msg]", **kwargs: Any) -> str:
        """Store messages that leave the context and return a reference that the agent can read."""
        ...

    async def offload_tool_result(self, session_id: str, tool_result: "ToolResultBlock", **kwargs: Any) -> str:
        """Store a whole tool result and return a reference that the agent can read."""
        ...


class StoreOffloader:
    """AgentScope's three offload methods on a store. Storing the same again changes nothing and returns the same.

    Secrets are replaced before anything is stored. Media in base64 is stored once by the hash of its bytes, wherever it
    stands (message, tool result, hint), and a URL takes its place in what is stored; it is not redacted. What is passed in
    is never changed.

    Args:
        store: Where everything goes.
        codec: Builds and writes the host's blocks and messages.
        media_url: Makes the URL of a blob from its reference; by default a reference that is a URL stays as it is and
            a path becomes a `file:` URL.
        redactor: Returns a text without secrets; `None` for storing everything as it is.
        result_bytes: Most bytes of one tool result that are stored, at least 1; of a longer one head and tail are, and
            a line between them. `None` for no limit.

    Raises:
        ConfigError: `result_bytes` is below 1.
    """

    def __init__(
        self,
        store: Store,
        codec: Codec,
        *,
        media_url: Callable[[str], str] | None = None,
        redactor: Redactor | None = DEFAULT_REDACTOR,
        result_bytes: int | None = RESULT_BYTES,
    ) -> None:
        if result_bytes is not None and result_bytes < 1:
            msg = f"StoreOffloader.result_bytes is {result_bytes!r}: give a number of at least 1, or None for no limit."
            raise ConfigError(msg)
        self.store = store
        self.redactor = redactor
        """What redacts; ctxkit's own has `counts`."""
        self._codec = codec
        self._media_url = media_url or _url_of
        self._result_bytes = result_bytes

    async def offload_context(
        self, session_id: str, msgs: "Sequence[Msg]", *, through: Store | None = None, kind: str = MESSAGE, **_: Any
    ) -> str:
        """Store messages at the end of the session's log and return its reference.

        Args:
            session_id: The session.
            msgs: The messages, oldest first.
            through: The store as the session's owner uses it, a fenced view of `store`; `store` itself where unset.
            kind: Kind of the records; those of another kind than `message` are no part of what is read back.

        Raises:
            StoreWriteError: They could not be stored.
        """
        records = []
        pending = 0
        for message in msgs:
            body = await self._redacted(self._codec.dump(await self._without_media(message)))
            key = await _key(message.id if kind == MESSAGE else f"{kind}-{message.id}", body)
            records.append(Record(key=key, body=body, kind=kind, provenance=provenance_of(message)))
            pending += len(body)
            if pending >= _PIECE_CHARS:
                pending = 0
                await asyncio.sleep(0)
        reference = await (through or self.store).append(session_id, records)
        told = _TOLD.get()
        if told is not None:
            told.extend(record.key for record in records)
        return reference

    async def offload_tool_result(
        self, session_id: str, tool_result: "ToolResultBlock", *, through: Store | None = None, **_: Any
    ) -> str:
        """Store the whole output of a tool as text and return its reference.

        Texts stand as they are, but for secrets; media becomes `<data url='…' name='…' media_type='…'/>`, as in the host.
        Where the store takes chunks, no copy of the output is made.

        Args:
            session_id: The session.
            tool_result: The result.
            through: As for `offload_context`.

        Raises:
            StoreWriteError: It could not be stored.
        """
        store = through or self.store
        output = tool_result.output
        texts = [output] if isinstance(output, str) else [await self._as_text(piece) for piece in output]
        chunks = result_chunks(texts, redactor=self.redactor, limit_bytes=self._result_bytes)
        name = result_name(tool_result.id)
        try:
            if isinstance(store, Streams):
                return await store.put_chunks(session_id, name, chunks)
            return await store.put(session_id, name, b"".join([chunk async for chunk in chunks]))
        except ConfigError as exc:
            raise StoreWriteError(str(exc)) from exc
        finally:
            await chunks.aclose()

    async def offload_data_block(self, block: "DataBlock", **_: Any) -> "DataBlock":
        """Store media that is in base64 and return a copy of the block with a URL; other blocks come back as they are.

        Raises:
            StoreWriteError: It could not be stored.
        """
        if block.source.type != "base64":
            return block
        data, media_type = await _decode(block.source.data), block.source.media_type
        if data is None:  # it is no base64, but it is not lost
            data, media_type = block.source.data.encode("utf-8", "backslashreplace"), "text/plain"
        name = await asyncio.to_thread(_media_name, data, media_type)
        return self._codec.with_url(block, self._media_url(await self.store.put(None, name, data)))

    async def _redacted(self, body: str) -> str:
        if self.redactor is None:
            return body
        try:
            return await redact_body(body, self.redactor)
        except ConfigError as exc:
            raise StoreWriteError(str(exc)) from exc

    async def _as_text(self, piece: "Piece") -> str:
        if piece.type == "text":
            return piece.text
        stored = await self.offload_data_block(piece)
        url = stored.source.url if stored.source.type == "url" else ""
        return f"<data url='{url}' name='{piece.name}' media_type='{piece.source.media_type}'/>"

    async def _without_media(self, message: "Msg") -> "Msg":
        content: list[Block] = []
        changed = False
        for block in message.content:
            new = await self._stored(block)
            changed = changed or new is not block
            content.append(new)
        return self._codec.with_content(message, content) if changed else message

    async def _stored(self, block: "Block") -> "Block":
        if block.type == "data":
            return await self.offload_data_block(block)
        if block.type == "tool_result" and not isinstance(block.output, str):
            pieces = await self._stored_pieces(block.output)
            return block if pieces is None else self._codec.with_output(block, pieces)
        if block.type == "hint" and not isinstance(block.hint, str):
            pieces = await self._stored_pieces(block.hint)
            return block if pieces is None else self._codec.with_hint(block, pieces)
        return block

    async def _stored_pieces(self, pieces: "Sequence[Piece]") -> "list[Piece] | None":
        new = [await self.offload_data_block(piece) if piece.type == "data" else piece for piece in pieces]
        return new if any(one is not other for one, other in zip(new, pieces, strict=True)) else None


async def _key(identifier: str, body: str) -> str:
    if len(body) > _PIECE_CHARS:
        return await asyncio.to_thread(record_key, identifier, body)
    return record_key(identifier, body)


async def _decode(text: str) -> bytes | None:
    """Return what base64 text stands for, or None where it is not base64."""
    data = bytearray()
    try:
        for at in range(0, len(text), _PIECE_CHARS):
            data += binascii.a2b_base64(text[at : at + _PIECE_CHARS], strict_mode=True)
            await asyncio.sleep(0)
    except ValueError:
        try:
            # Line breaks and the like, which decoders pass over: then the pieces are not whole.
            return binascii.a2b_base64(text)
        except ValueError:
            return None
    return bytes(data)


def _media_name(data: bytes, media_type: str) -> str:
    """Return the hash of the content and an extension; blocks, for both may take a while and the latter a file."""
    extension = mimetypes.guess_extension(media_type) or ""
    return f"{sha256(data).hexdigest()}{extension if _EXTENSION.fullmatch(extension) else '.bin'}"


def _url_of(reference: str) -> str:
    return reference if "://" in reference else PurePath(reference).as_uri()
