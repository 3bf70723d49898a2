"""Recall: searches and reads what a session has stored, in answers that fit a budget of tokens."""

import asyncio
import codecs
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, Literal, Protocol

from ctxkit.offload.chain import CHAIN
from ctxkit.offload.index import Doc, Hit, NewDoc, SessionIndex
from ctxkit.offload.names import RESULT_PREFIX, fsname, result_name
from ctxkit.offload.render import Rendered, plain, render_record
from ctxkit.offload.store import BLOB, Entry, Store, read_records
from ctxkit.offload.terms import terms

Mode = Literal["auto", "words", "literal"]
"""How to search: by words and literally, by words only, or literally only (case of ASCII letters apart)."""

LOG_DOC: Final = "context"
"""Name of all records of a session together; one of them is `context#<sequence>`."""

_SESSIONS: Final = 8
"""Sessions whose index is kept; that of another one is built anew."""
_BLOB_BYTES: Final = 1 << 18
_BATCH_BYTES: Final = 1 << 20
_QUERY_CHARS: Final = 1000
_EXCERPT_CHARS: Final = 320
_CHARS_PER_TOKEN: Final = 12
"""No text that is read has more characters a token for long: so much is fetched for a page."""
_LISTED: Final = 20
_ID_CHARS: Final = 100
_RECORD_NAME: Final = re.compile(r"(?:context(?:\.jsonl)?|message|record)?\s*#\s*(\d{1,12})")


class Ruler(Protocol):
    """Counts and cuts text by tokens; `ctxkit.tokens.Ruler` is one."""

    async def count(self, text: str) -> int:
        """Return the tokens of a text."""
        ...

    async def head(self, text: str, tokens: int) -> str:
        """Return the longest beginning of a text that has at most so many tokens."""
        ...


def fence(text: str, nonce: str) -> str:
    """Return recalled text between lines that it cannot imitate, for it is data, not instruction.

    Args:
        text: What was recalled; ctxkit's own markers in it are made harmless by the caller.
        nonce: Random letters and digits, new at each call.
    """
    return f'<recalled nonce="{nonce}">\n{text}\n</recalled nonce="{nonce}">'


class Recall:
    """Reads back what sessions have stored.

    Answers are text for a model: they say where things stand and what to call next. What is asked for and is not there
    is answered in words; only a store that fails raises.

    Args:
        store: What the offloader writes to.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._indexes: OrderedDict[str, SessionIndex] = OrderedDict()

    async def search(
        self, session_id: str, query: str, *, limit_tokens: int, ruler: Ruler, mode: Mode = "auto", skip: int = 0
    ) -> str:
        """Return the places of a session that a query finds, best first, each with an excerpt.

        Args:
            session_id: The session; no other one is looked at.
            query: Words, ids, paths, quoted phrases; no operators, any text is allowed.
            limit_tokens: Most tokens of the answer.
            ruler: Counts them.
            mode: How to search.
            skip: Hits to leave out, for the next page.

        Raises:
            StoreReadError: The store failed.
        """
        query = plain(query.strip()[:_QUERY_CHARS])
        index = await self._refreshed(session_id)
        hits = await asyncio.to_thread(index.search, query, words=mode != "literal", literal=mode != "words")
        skip = max(0, skip)
        page = hits[skip:]
        if not page:
            said = f"No {'more ' if hits else ''}hits for {query!r} in what is stored of this session."
            return await _clamped(f"{said} Try other words, an id, a path, or a part of a line.", limit_tokens, ruler)
        budget = limit_tokens - await ruler.count(_search_end(query, skip, len(page), len(hits), more=True))
        shown: list[str] = []
        for hit in page:
            block = await asyncio.to_thread(_hit_text, index, hit, query, skip + len(shown) + 1)
            tokens = await ruler.count(block)
            if tokens > budget and shown:
                break
            shown.append(block if tokens <= budget else await ruler.head(block, max(0, budget)))
            budget -= tokens
        while True:
            end = _search_end(query, skip, len(shown), len(hits), more=skip + len(shown) < len(hits))
            answer = "".join(shown) + end
            if len(shown) == 1 or await ruler.count(answer) <= limit_tokens:
                return await _clamped(answer, limit_tokens, ruler)
            shown.pop()

    async def read(
        self,
        session_id: str,
        reference: str,
        *,
        offset: int = 0,
        limit: int | None = None,
        limit_tokens: int,
        ruler: Ruler,
    ) -> str:
        """Return a page of something stored.

        Args:
            session_id: The session; references of other ones are not found.
            reference: What a marker, a summary or a search named: a path, its last part, `context` for all messages,
                `context#7` for one of them, the id of a message or of a tool call.
            offset: First character, 0-based; negative counts from the end.
            limit: Most characters; `None` for as many as fit.
            limit_tokens: Most tokens of the answer.
            ruler: Counts them.

        Raises:
            StoreReadError: The store failed.
        """
        index = await self._refreshed(session_id)
        name = plain(reference[:_QUERY_CHARS].strip().strip("'\"`"))
        doc = await asyncio.to_thread(self._find, index, session_id, name)
        if doc is None:
            known = await asyncio.to_thread(index.docs, limit=_LISTED)
            return await _clamped(_not_found(name, known), limit_tokens, ruler)
        start = min(max(0, doc.chars + offset if offset < 0 else offset), doc.chars)
        budget = limit_tokens - await ruler.count(_page_head(doc, start, doc.chars, more=True))
        wanted = max(0, budget) * _CHARS_PER_TOKEN
        if limit is not None:
            wanted = min(wanted, max(1, limit))
        text = await asyncio.to_thread(_page, index, doc, start, min(wanted, doc.chars - start))
        while True:
            text = await ruler.head(text, max(0, budget))
            answer = _page_head(doc, start, start + len(text), more=start + len(text) < doc.chars) + text
            over = await ruler.count(answer) - limit_tokens
            if over <= 0 or not text:
                return await _clamped(answer, limit_tokens, ruler)
            budget -= over

    def forget(self, session_id: str) -> None:
        """Drop the index of a session, for one that is deleted."""
        index = self._indexes.pop(session_id, None)
        if index is not None:
            index.close()

    async def _refreshed(self, session_id: str) -> SessionIndex:
        """Return the index of a session with all that has come since the last time."""
        index = self._indexes.get(session_id)
        if index is None:
            index = await asyncio.to_thread(SessionIndex)
            self._indexes[session_id] = index
        self._indexes.move_to_end(session_id)
        while len(self._indexes) > _SESSIONS:
            # Not closed: a search may be running in it.
            self._indexes.popitem(last=False)
        newest, key = await asyncio.to_thread(index.newest)
        entries = [entry async for entry in self._store.list(session_id, after=max(0, newest - 1))]
        records = [entry for entry in entries if entry.kind != BLOB]
        blobs = [entry for entry in entries if entry.kind == BLOB]
        known = await asyncio.to_thread(index.names)
        first = records[0] if records else None
        same = newest == 0 or (first is not None and (first.sequence, first.key) == (newest, key))
        if not same or known - {blob.name for blob in blobs}:
            self._indexes.pop(session_id, None)  # the session was deleted, and perhaps begun anew
            return await self._refreshed(session_id)
        new = [entry for entry in records if (entry.sequence or 0) > newest and entry.kind not in CHAIN]
        await self._add_records(index, new)
        for blob in blobs:
            if blob.name is not None and blob.name not in known:
                await self._add_blob(index, blob)
        return index

    async def _add_records(self, index: SessionIndex, entries: Iterable[Entry]) -> None:
        batch: list[tuple[Entry, bytes]] = []
        size = 0
        async for entry, body in read_records(self._store, entries):
            batch.append((entry, body))
            size += len(body)
            if size >= _BATCH_BYTES:
                await asyncio.to_thread(_index_records, index, batch)
                batch, size = [], 0
        if batch:
            await asyncio.to_thread(_index_records, index, batch)

    async def _add_blob(self, index: SessionIndex, blob: Entry) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        parts = []
        for at in range(0, blob.size, _BLOB_BYTES):
            data = await self._store.get(blob.reference, at, _BLOB_BYTES)
            parts.append(plain(decoder.decode(data, final=at + _BLOB_BYTES >= blob.size)))
            await asyncio.sleep(0)
        name = blob.name or blob.reference
        await asyncio.to_thread(index.add, [NewDoc(name=name, rendered=Rendered("".join(parts), []))])

    def _find(self, index: SessionIndex, session_id: str, name: str) -> Doc | None:
        log = self._store.reference(session_id)
        if name in (LOG_DOC, "context.jsonl", log):
            return Doc(id=0, name=LOG_DOC, chars=index.log_chars())
        numbered = _RECORD_NAME.fullmatch(name.removeprefix(log))
        if numbered:
            return index.find([f"{LOG_DOC}#{int(numbered[1])}"], "")
        names = [name, result_name(name), f"{RESULT_PREFIX}{name}", f"{name}.txt"]
        folder, _, last = name.replace("\\", "/").rpartition("/")
        sessions = log.replace("\\", "/").rpartition(f"{fsname(session_id)}/")[0]
        if folder.rpartition("/")[2] == fsname(session_id) or not (folder and folder.startswith(sessions.rstrip("/"))):
            # A path of this session, or the reference of another back end that names it the same.
            names.append(last)
            if last == "context.jsonl":
                return Doc(id=0, name=LOG_DOC, chars=index.log_chars())
        return index.find(names, name)


def _index_records(index: SessionIndex, batch: Sequence[tuple[Entry, bytes]]) -> None:
    index.add(
        NewDoc(
            name=f"{LOG_DOC}#{entry.sequence or 0}",
            rendered=render_record(body),
            sequence=entry.sequence or 0,
            key=entry.key,
        )
        for entry, body in batch
    )


def _page(index: SessionIndex, doc: Doc, offset: int, length: int) -> str:
    return index.log_text(offset, length) if doc.name == LOG_DOC else index.text(doc, offset, length)


def _hit_text(index: SessionIndex, hit: Hit, query: str, number: int) -> str:
    """Return one hit with the text round the match."""
    at = hit.start + _match_at(hit.body, query)
    place = max(0, min(at - _EXCERPT_CHARS // 3, hit.doc.chars - _EXCERPT_CHARS))
    excerpt = index.text(hit.doc, place, _EXCERPT_CHARS).strip()
    before = "…" if place else ""
    after = "…" if place + _EXCERPT_CHARS < hit.doc.chars else ""
    who = index.who(hit.doc, at)
    message, part, parts = index.parts(hit.doc)
    if parts > 1:
        who += f', part {part} of {parts} of message "{message[:_ID_CHARS]}"'
    return (
        f'{number}. reference="{hit.doc.name}" offset={place} of {hit.doc.chars} characters, {who}\n'
        f"{before}{excerpt}{after}\n\n"
    )


def _match_at(body: str, query: str) -> int:
    """Return where in a chunk an excerpt shows most: the query itself, else most of its words, long ones counting more."""
    whole = re.search(re.escape(query), body, re.IGNORECASE) if query else None
    if whole:
        return whole.start()
    words = {*re.findall(r"\S+", query), *re.findall(r"\w+", query), *terms(query)}
    pattern = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True) if len(word) > 1)
    found = list(re.finditer(pattern, body, re.IGNORECASE)) if pattern else []
    shown = _EXCERPT_CHARS * 2 // 3
    best, most = 0, (0, 0)
    for first in found:
        inside = [m for m in found if first.start() <= m.start() and m.end() <= first.start() + shown]
        firsts = {m[0].lower(): m.end() for m in reversed(inside)}
        # Of equal places the narrowest: there the words belong together, not to the line before.
        score = (sum(map(len, firsts)), first.start() - max(firsts.values()))
        if score > most or not most[0]:
            best, most = first.start(), score
    return best


def _search_end(query: str, skip: int, shown: int, hits: int, *, more: bool) -> str:
    told = f"hits {skip + 1} to {skip + shown} of {hits}"
    following = f"; next: search_context(query={query[:80]!r}, skip={skip + shown})" if more else ""
    return f"({told}{following}; to read on: read_context(reference=…, offset=…))"


def _page_head(doc: Doc, start: int, stop: int, *, more: bool) -> str:
    following = f'; next: read_context(reference="{doc.name}", offset={stop})' if more else "; this is the end"
    return f"({doc.name}: characters {start} to {stop} of {doc.chars}{following})\n"


def _not_found(name: str, known: Sequence[Doc]) -> str:
    if not known:
        return f"Nothing is stored under {name[:200]!r}: nothing has been stored of this session yet."
    listed = "\n".join(f"- {doc.name} ({doc.chars} characters)" for doc in known)
    return f"Nothing is stored under {name[:200]!r} in this session. What there is, newest first:\n- {LOG_DOC} (all messages)\n{listed}"


async def _clamped(text: str, limit_tokens: int, ruler: Ruler) -> str:
    return text if await ruler.count(text) <= limit_tokens else await ruler.head(text, max(0, limit_tokens))
