"""A search index over one session: its text in overlapping chunks, found by words (BM25) and literally.

It lives in a private temporary database and is rebuilt from the store at need, so it is never out of step with it for
long and nothing depends on it. All methods block: call them in a thread.
"""

import re
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final

from ctxkit.offload.names import RESULT_PREFIX, fsname
from ctxkit.offload.render import Rendered, plain
from ctxkit.offload.terms import terms

CHUNK_CHARS: Final = 800
_STEP_CHARS: Final = 600
"""Chunks overlap by the difference, so that whatever is shorter than it stands whole in one of them."""
_WORDS_CHARS: Final = _STEP_CHARS + 64
"""Words are taken from little more than what is new in a chunk: the next one has the rest."""
NEEDLE_CHARS: Final = CHUNK_CHARS - _STEP_CHARS
_MOST_HITS: Final = 200
"""Hits of one kind that are looked at."""
_QUERY_TERMS: Final = 40
_NEEDLES: Final = 6
_RANK_SHIFT: Final = 60.0
"""Of reciprocal rank fusion (Cormack, Clarke and Buettcher 2009)."""

_ID_LIKE: Final = re.compile(r"[\d_./\\:@#-]")
"""A word with one of these is worth a literal search: ids, paths, numbers, names of code."""
_ID_CHARS: Final = 4
_QUOTED: Final = re.compile(r"[\"'`]([^\"'`]{3,})[\"'`]")

_TABLES: Final = """
CREATE TABLE docs (id INTEGER PRIMARY KEY, name TEXT UNIQUE, sequence INTEGER, key TEXT, message TEXT,
                   start INTEGER, chars INTEGER);
CREATE INDEX docs_message ON docs (message);
CREATE INDEX docs_start ON docs (start) WHERE sequence > 0;
CREATE INDEX docs_sequence ON docs (sequence);
CREATE TABLE speakers (doc INTEGER, start INTEGER, who TEXT, PRIMARY KEY (doc, start)) WITHOUT ROWID;
CREATE TABLE blocks (doc INTEGER, start INTEGER, block TEXT, PRIMARY KEY (doc, start)) WITHOUT ROWID;
CREATE TABLE chunks (id INTEGER PRIMARY KEY, doc INTEGER, start INTEGER, body TEXT);
CREATE INDEX chunks_doc ON chunks (doc, start);
CREATE TABLE tools (call TEXT PRIMARY KEY, tool TEXT) WITHOUT ROWID;
"""


@dataclass(frozen=True, kw_only=True)
class NewDoc:
    """A document to index."""

    name: str
    """Unique in the session."""
    rendered: Rendered
    sequence: int = 0
    """Place of a record in the log, 1-based; 0 for a blob."""
    key: str | None = None
    """The record's key."""


@dataclass(frozen=True, kw_only=True)
class Doc:
    """One readable thing of a session."""

    id: int
    name: str
    """What `read_context` takes."""
    chars: int
    spans: tuple[tuple[int, int, int], ...] = ()
    """Of what is put together from several documents: (id, first character, character behind the last) of each piece."""


@dataclass(frozen=True, kw_only=True)
class Hit:
    """One place that a query found."""

    doc: Doc
    start: int
    """First character of the chunk in the document."""
    body: str


class SessionIndex:
    """The index of one session."""

    def __init__(self) -> None:
        # An empty name is a private database that spills to an unlinked temporary file when it grows.
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._lock = threading.Lock()
        self._db.executescript("PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF;" + _TABLES)
        try:
            self._db.execute("CREATE VIRTUAL TABLE words USING fts5(body, content='', tokenize='unicode61')")
            # A batch fits in memory before it is written: 16 MB, for the default of 1 MB makes many small segments.
            self._db.execute("INSERT INTO words (words, rank) VALUES ('hashsize', ?)", (1 << 24,))
            self._has_words = True
        except sqlite3.OperationalError:
            self._has_words = False  # this Python's SQLite has no FTS5: literal search does the work

    def close(self) -> None:
        """Forget everything; the index is of no use afterwards."""
        with self._lock:
            self._db.close()

    def __del__(self) -> None:
        if hasattr(self, "_db"):
            self._db.close()

    def newest(self) -> tuple[int, str | None]:
        """Return sequence and key of the newest record that is indexed; (0, None) where there is none."""
        with self._lock:
            row = self._db.execute(
                "SELECT sequence, key FROM docs WHERE sequence > 0 ORDER BY sequence DESC LIMIT 1"
            ).fetchone()
        return (row[0], row[1]) if row else (0, None)

    def names(self) -> set[str]:
        """Return the names of the blobs that are indexed."""
        with self._lock:
            return {row[0] for row in self._db.execute("SELECT name FROM docs WHERE sequence = 0")}

    def add(self, documents: Iterable[NewDoc]) -> None:
        """Index documents, in the order of the log; those that are there already stay as they are.

        They go in one transaction, for each of them costs as much as some hundred chunks.
        """
        with self._lock, self._db:
            self._db.execute("BEGIN")
            for document in documents:
                self._add(document)

    def _add(self, new: NewDoc) -> None:
        text = new.rendered.text
        start = self._log_chars() if new.sequence else 0
        added = self._db.execute(
            "INSERT OR IGNORE INTO docs (name, sequence, key, message, start, chars) VALUES (?, ?, ?, ?, ?, ?)",
            (new.name, new.sequence, new.key, plain(new.rendered.message_id), start, len(text)),
        )
        if added.rowcount != 1:
            return
        doc = added.lastrowid
        tools = ((fsname(call), plain(tool)) for call, tool in new.rendered.tools)
        self._db.executemany("INSERT OR IGNORE INTO tools VALUES (?, ?)", tools)
        speakers = ((doc, at, who) for at, who in new.rendered.speakers)
        self._db.executemany("INSERT INTO speakers VALUES (?, ?, ?)", speakers)
        blocks = ((doc, at, block) for at, block in new.rendered.blocks)
        self._db.executemany("INSERT OR IGNORE INTO blocks VALUES (?, ?, ?)", blocks)
        for at in range(0, max(1, len(text)), _STEP_CHARS):
            body = text[at : at + CHUNK_CHARS]
            row = self._db.execute("INSERT INTO chunks (doc, start, body) VALUES (?, ?, ?)", (doc, at, body))
            if self._has_words:
                words = (row.lastrowid, " ".join(terms(text[at : at + _WORDS_CHARS])))
                self._db.execute("INSERT INTO words (rowid, body) VALUES (?, ?)", words)

    def who(self, doc: Doc, at: int) -> str:
        """Return who speaks at a character of a document, as far as what is indexed says."""
        with self._lock:
            row = self._db.execute(
                "SELECT who FROM speakers WHERE doc = ? AND start <= ? ORDER BY start DESC LIMIT 1", (doc.id, at)
            ).fetchone()
            if row:
                return str(row[0])
            call = doc.name.removeprefix(RESULT_PREFIX).removesuffix(".txt")
            row = self._db.execute("SELECT tool FROM tools WHERE call = ?", (call,)).fetchone()
        return f"result of {row[0]} ({call})" if row else f"result of call {call}"

    def docs(self, *, limit: int) -> list[Doc]:
        """Return the newest documents, blobs first."""
        with self._lock:
            rows = self._db.execute(
                "SELECT id, name, chars FROM docs ORDER BY sequence > 0, id DESC LIMIT ?", (limit,)
            ).fetchall()
        return [Doc(id=row[0], name=row[1], chars=row[2]) for row in rows]

    def find(self, names: Iterable[str], message_id: str) -> Doc | None:
        """Return the document that has one of the names, else a message: all its records as one where it left in parts."""
        with self._lock:
            for name in names:
                row = self._db.execute("SELECT id, name, chars FROM docs WHERE name = ?", (name,)).fetchone()
                if row:
                    return Doc(id=row[0], name=row[1], chars=row[2])
            parts = self._parts(message_id)
            return self._joined(message_id, parts) if len(parts) > 1 else next(iter(parts), None)

    def parts(self, doc: Doc) -> tuple[str, int, int]:
        """Return the message that a document is of, which of its records it is (1-based), and how many there are.

        Of what is no message, the message is empty.
        """
        with self._lock:
            row = self._db.execute("SELECT message FROM docs WHERE id = ?", (doc.id,)).fetchone()
            parts = self._parts(row[0]) if row else []
        number = next((number for number, part in enumerate(parts, 1) if part.id == doc.id), 0)
        return (row[0] if number else "", number, len(parts))

    def _parts(self, message_id: str) -> list[Doc]:
        """Return the records of a message, oldest first."""
        rows = self._db.execute(
            "SELECT id, name, chars FROM docs WHERE message = ? AND message != '' ORDER BY sequence", (message_id,)
        )
        return [Doc(id=row[0], name=row[1], chars=row[2]) for row in rows]

    def _joined(self, message_id: str, parts: Sequence[Doc]) -> Doc:
        """Return the records of a message as one document; a block that stands in several of them is there once."""
        seen: set[str] = set()
        spans = []
        for part in parts:
            blocks = self._db.execute(
                "SELECT start, block FROM blocks WHERE doc = ? ORDER BY start", (part.id,)
            ).fetchall()
            ends = [start for start, _ in blocks[1:]] + [part.chars]
            for (start, block), end in zip(blocks, ends, strict=True):
                if not (block and block in seen):
                    spans.append((part.id, start, end))
                seen.add(block)
        return Doc(id=0, name=message_id, chars=sum(end - start for _, start, end in spans), spans=tuple(spans))

    def log_chars(self) -> int:
        """Return the characters of all records together."""
        with self._lock:
            return self._log_chars()

    def text(self, doc: Doc, offset: int, length: int) -> str:
        """Return characters of one document."""
        with self._lock:
            if not doc.spans:
                return self._text(doc.id, offset, length)
            parts, before = [], 0
            for part, start, end in doc.spans:
                first, last = max(0, offset - before), min(end - start, offset + length - before)
                if first < last:
                    parts.append(self._text(part, start + first, last - first))
                before += end - start
            return "".join(parts)

    def log_text(self, offset: int, length: int) -> str:
        """Return characters of all records one after another."""
        parts = []
        with self._lock:
            rows = self._db.execute(
                "SELECT id, start, chars FROM docs WHERE sequence > 0 AND start + chars > ? AND start < ? ORDER BY start",
                (offset, offset + length),
            ).fetchall()
            for doc, start, chars in rows:
                first = max(0, offset - start)
                parts.append(self._text(doc, first, min(chars, offset + length - start) - first))
        return "".join(parts)

    def search(self, query: str, *, words: bool, literal: bool) -> list[Hit]:
        """Return the places that a query finds, best first; literal ones stand before those of words alone."""
        scores: dict[int, float] = {}
        with self._lock:
            if literal or not self._has_words:
                for weight, needle in _needles(query, alone=self._has_words):
                    for chunk in self._literal(needle):
                        scores[chunk] = scores.get(chunk, 0.0) + weight
            if words and self._has_words:
                for rank, chunk in enumerate(self._ranked(query)):
                    scores[chunk] = scores.get(chunk, 0.0) + 1 / (_RANK_SHIFT + rank)
            best = sorted(scores, key=lambda chunk: (-scores[chunk], -chunk))
            return self._hits(best)

    def _hits(self, chunks: Sequence[int]) -> list[Hit]:
        """Return the hits of chunks, one of several that overlap or say the same."""
        taken: set[tuple[int, int]] = set()
        said: set[str] = set()
        hits = []
        for chunk in chunks:
            doc, start, body, name, chars = self._db.execute(
                "SELECT doc, chunks.start, body, name, chars FROM chunks JOIN docs ON docs.id = doc WHERE chunks.id = ?",
                (chunk,),
            ).fetchone()
            near = {(doc, start - _STEP_CHARS), (doc, start), (doc, start + _STEP_CHARS)}
            if near & taken or body in said:
                continue
            taken.add((doc, start))
            said.add(body)
            hits.append(Hit(doc=Doc(id=doc, name=name, chars=chars), start=start, body=body))
        return hits

    def _literal(self, needle: str) -> list[int]:
        pattern = re.sub(r"([%_\\])", r"\\\1", needle)
        rows = self._db.execute(
            "SELECT id FROM chunks WHERE body LIKE ? ESCAPE '\\' ORDER BY id DESC LIMIT ?", (f"%{pattern}%", _MOST_HITS)
        )
        return [row[0] for row in rows]

    def _ranked(self, query: str) -> list[int]:
        wanted = list(dict.fromkeys(terms(query)))[:_QUERY_TERMS]
        if not wanted:
            return []
        # Terms are letters and digits only, so a quoted one is never taken for an operator.
        match = " OR ".join(f'"{term}"' for term in wanted)
        with closing(self._db.cursor()) as cursor, suppress(sqlite3.OperationalError):
            cursor.execute(
                "SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words), rowid DESC LIMIT ?",
                (match, _MOST_HITS),
            )
            return [row[0] for row in cursor]
        return []

    def _log_chars(self) -> int:
        row = self._db.execute(
            "SELECT start + chars FROM docs WHERE sequence > 0 ORDER BY start DESC LIMIT 1"
        ).fetchone()
        return int(row[0]) if row else 0

    def _text(self, doc: int, offset: int, length: int) -> str:
        """Put characters together from chunks that overlap."""
        rows = self._db.execute(
            "SELECT start, body FROM chunks WHERE doc = ? AND start > ? AND start < ? ORDER BY start",
            (doc, offset - CHUNK_CHARS, offset + length),
        )
        parts, at = [], offset
        for start, body in rows:
            part = body[at - start : offset + length - start] if at < start + len(body) else ""
            parts.append(part)
            at += len(part)
        return "".join(parts)


def _needles(query: str, *, alone: bool) -> list[tuple[float, str]]:
    """Return (weight, text) of what is looked for literally.

    Args:
        query: What was asked.
        alone: Whether words are found by other means; else each word is a needle too.
    """
    whole = query.strip()[:NEEDLE_CHARS]
    needles: dict[str, float] = {whole: 2.0} if whole else {}
    for text in _QUOTED.findall(query):
        needles.setdefault(text.strip()[:NEEDLE_CHARS], 1.0)
    for text in query.split():
        word = text.strip("\"'`,;:.!?()[]{}<>")[:NEEDLE_CHARS]
        if len(word) >= _ID_CHARS and _ID_LIKE.search(word):
            needles.setdefault(word, 0.5)
        elif not alone:
            needles.setdefault(word, 0.25)
    return [(weight, needle) for needle, weight in needles.items() if needle][:_NEEDLES]
