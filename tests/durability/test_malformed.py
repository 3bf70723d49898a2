"""R5: files that are broken in every way one can think of: no crash, every good record kept, no altered one taken for good.

What a store sets aside of a broken file is asked for too: no byte of it is lost.
"""

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from ctxkit.errors import NewerFormatError, SessionLockedError, StoreError, StoreReadError
from ctxkit.host._codec import HostCodec
from ctxkit.offload import BLOB, FileStore, Record, lines, read_records
from ctxkit.sessions import SessionEntry, SessionLocks, SessionStore, SqliteSessionStore, TranscriptSessionStore
from ctxkit.sessions.repair import repair_file

from .broken_files import BOMBS, broken

SESSION = "s"
SEED = 20261122
LOG = "context.jsonl"

pytestmark = [pytest.mark.crash, pytest.mark.row("X1", "A8")]


@contextmanager
def named(what: str, turn: int) -> Iterator[Random]:
    """Give a round its chance; a failure names the round."""
    try:
        yield Random(f"{SEED} {what} {turn}")
    except BaseException as exc:
        exc.add_note(f"{what}, round {turn}")
        raise


def bodies(chance: Random) -> dict[str, bytes]:
    """Return bodies by key."""
    found = {}
    for number in range(30):
        text = 'é"\\\n\u2028' * chance.randint(0, 80)
        body = json.dumps({"id": f"m{number}", "role": "user", "content": text}, ensure_ascii=bool(number % 2))
        found[f"m{number}"] = body.encode()
    return found


def sealed(known: dict[str, bytes]) -> list[bytes]:
    return [
        lines.seal(body, Record(key=key, body=body.decode()), number)
        for number, (key, body) in enumerate(known.items(), 1)
    ]


async def listed(store: FileStore) -> list[tuple[str | None, bytes]]:
    """Return keys and bodies of all records, each key once, in order."""
    entries = [entry async for entry in store.list(SESSION) if entry.kind != BLOB]
    keys = [entry.key for entry in entries if entry.key is not None]
    assert len(keys) == len(set(keys))
    numbers = [entry.sequence for entry in entries]
    assert numbers == sorted(set(numbers))
    return [(entry.key, lines.bare(data)) async for entry, data in read_records(store, entries)]


async def look_at_log(root: Path, known: dict[str, bytes], intact: set[str]) -> None:
    """Ask a fresh store for what is there, write, and ask another one."""
    known = {**known, "after": b'{"id":"after"}'}
    store = FileStore(root)
    try:
        before = await listed(store)
        assert_good(before, known, set())
        await store.append(SESSION, [Record(key="after", body='{"id":"after"}')])
        assert_good(await listed(store), known, intact | {"after"})
    finally:
        await store.aclose()
    store = FileStore(root)
    try:
        after = await listed(store)
        assert_good(after, known, intact | {"after"} | {key for key, _ in before if key is not None})
        await store.append(SESSION, [Record(key=key, body=body.decode()) for key, body in known.items()])
        assert_good(await listed(store), known, {*known})
    finally:
        await store.aclose()


def assert_good(found: Sequence[tuple[str | None, bytes]], known: dict[str, bytes], wanted: set[str]) -> None:
    """Ask that no record is altered and none is missing."""
    for key, body in found:
        if key is not None:
            assert body == known[key], "an altered record was taken for good"
        elif len(body) <= lines.FOREIGN_BYTES:  # longer ones of others are taken at their brackets
            json.loads(body)
    assert wanted <= {key for key, _ in found}, f"lost: {sorted(wanted - {key for key, _ in found})}"


def whole_lines(data: bytes, good: Sequence[bytes]) -> set[bytes]:
    """Return which of the good lines stand whole on lines of their own."""
    there = {line.removesuffix(b"\r") for line in data.split(b"\n")}
    return {line for line in good if line.rstrip(b"\n") in there}


def plant_log(folder: Path, data: bytes, chance: Random) -> Sequence[bytes]:
    """Write a log in one file or two, and return what stands in each."""
    folder.mkdir(parents=True)
    parts = [data]
    if chance.random() < 0.3:
        at = data.find(b"\n", chance.randrange(len(data) + 1)) + 1
        parts = [data[:at], data[at:]]
    for number, part in enumerate(parts, 1):
        (folder / (LOG if number == 1 else f"context-{number:04}.jsonl")).write_bytes(part)
    return parts


def assert_nothing_lost(folder: Path, parts: Sequence[bytes]) -> None:
    """Ask that what was bad is kept aside, and that the log is one that anybody can parse."""
    kept = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
    for part in parts:
        for line in part.split(b"\n"):
            assert line.strip(b" \t\r") in kept, "what was bad is not even kept aside"
    for path in folder.glob("context*.jsonl"):
        for line in path.read_bytes().split(b"\n"):
            if line.strip() and len(line) <= lines.FOREIGN_BYTES:
                assert isinstance(json.loads(line), dict)


def test_a_broken_log_keeps_every_good_record_and_takes_no_altered_one_for_good(quick, volume):
    for turn in range(volume(short=600, full=10_000)):
        with named("log", turn) as chance:
            known = bodies(chance)
            good = sealed(known)
            folder = quick / f"{turn}" / "sessions" / SESSION
            parts = plant_log(folder, broken(b"".join(good), turn, chance), chance)
            there = set().union(*(whole_lines(part, good) for part in parts))
            intact = {key for key, line in zip(known, good, strict=True) if line in there}
            asyncio.run(look_at_log(quick / f"{turn}", known, intact))
            assert_nothing_lost(folder, parts)
            shutil.rmtree(quick / f"{turn}")


def messages_of(state: dict[str, object] | None) -> list[dict[str, object]]:
    context = (state or {}).get("context")
    assert context is None or isinstance(context, list)
    return context or []


def state_of(chance: Random, number: int = 8) -> dict[str, object]:
    context = [
        {
            "id": f"m{at}",
            "name": "n",
            "role": ["user", "assistant"][at % 2],
            "content": [{"type": "text", "id": f"t{at}", "text": f"{at}é" * chance.randint(1, 60)}],
        }
        for at in range(number)
    ]
    return {"session_id": SESSION, "summary": "up to here", "context": context, "middle_context": {}}


async def use(store: SessionStore, newer: dict[str, object]) -> dict[str, object] | None:
    """Ask a store for all that it can do with one session; return the state it had before, `None` where it says why not."""
    found = None
    calls: Sequence[Callable[[], Awaitable[object]]] = (
        lambda: store.load("other"),
        lambda: store.fence(SESSION, 5),
        lambda: _all(store),
    )
    try:
        saved = await store.load(SESSION)
        found = None if saved is None else dict(saved.state)
    except StoreError:
        found = None
    for call in calls:
        try:
            await call()
        except StoreError:
            continue
    try:
        await store.save(SESSION, newer, epoch=6)
    except StoreError:
        return found
    loaded = await store.load(SESSION)
    assert loaded is not None
    assert loaded.state == newer, "what was saved is not what is loaded"
    try:
        assert SESSION in [row.session_id for row in await _all(store)]
    except StoreReadError:
        assert isinstance(store, SqliteSessionStore)  # which tells of a broken row that another session has
    return found


async def _all(store: SessionStore) -> list[SessionEntry]:
    return [row async for row in store.list()]


async def closed(store: SessionStore, newer: dict[str, object]) -> dict[str, object] | None:
    try:
        return await use(store, newer)
    finally:
        await store.aclose()


async def saved(store: SessionStore, *states: dict[str, object]) -> None:
    for state in states:
        await store.save(SESSION, state, epoch=3)
        await store.save("other", state)
    await store.aclose()


class Transcripts:
    """A directory of transcripts of two sessions that is made anew for each round."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "agents/main/sessions"
        chance = Random(SEED)
        state = state_of(chance, 8)
        self.states = [{**state, "context": messages_of(state)[:4]}, state]
        asyncio.run(saved(TranscriptSessionStore(root), *self.states))
        self.files = {
            str(path.relative_to(self.folder)): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()
        }

    def renew(self, changed: dict[str, bytes | None]) -> None:
        """Put all files back but for those that are changed, or missing."""
        for path in self.folder.rglob("*"):
            if path.is_file():
                path.unlink()
        for name, data in {**self.files, **changed}.items():
            if data is not None:
                (self.folder / name).write_bytes(data)

    def use(self, newer: dict[str, object]) -> dict[str, object] | None:
        """Use the broken session, see that the other one was not harmed, and return what the broken one had."""
        found = asyncio.run(closed(TranscriptSessionStore(self.root), newer))
        other = asyncio.run(load(TranscriptSessionStore(self.root), "other"))
        assert other == self.states[-1], "another session was harmed"
        return found


@pytest.fixture
def transcripts(quick) -> Transcripts:
    return Transcripts(quick)


@pytest.mark.parametrize("name", ["sessions.json", ".lock", ".fences/s/.epoch", "s.jsonl"])
def test_what_is_broken_beside_a_saved_state_harms_no_session(transcripts, volume, name):
    for turn in range(volume(short=50, full=1500)):
        with named(name, turn) as chance:
            data = broken(transcripts.files[name] or b"x", turn, chance)
            transcripts.renew({name: data})
            found = transcripts.use(state_of(chance, 10))
            assert found == transcripts.states[-1] or (name == "s.jsonl" and found is None)


def test_of_a_broken_transcript_without_a_state_every_whole_message_is_loaded(transcripts, volume):
    name = "s.jsonl"
    messages = {line: json.loads(line)["id"] for line in transcripts.files[name].splitlines()[1:]}
    for turn in range(volume(short=80, full=1500)):
        with named(name, turn) as chance:
            data = broken(transcripts.files[name], turn, chance)
            transcripts.renew({name: data, "s.state.json": None})
            found = transcripts.use(state_of(chance, 10))
            whole = {messages[line] for line in whole_lines(data, list(messages))}
            loaded = {str(one.get("id")) for one in messages_of(found)}
            if whole - loaded:
                # The rule of a session that nobody has answered in, or of a format that is newer.
                aside = b"".join(path.read_bytes() for path in transcripts.folder.glob("s.jsonl.reset-*"))
                is_newer = b'"version":1,' not in data.partition(b"\n")[0]
                assert is_newer or all(f'"{one}"'.encode() in aside for one in whole - loaded)


def test_a_broken_state_is_told_and_made_anew_from_the_transcript(transcripts, volume):
    name = "s.state.json"
    for turn in range(volume(short=80, full=1500)):
        with named(name, turn) as chance:
            data = broken(transcripts.files[name], turn, chance)
            transcripts.renew({name: data})
            found = transcripts.use(state_of(chance, 10))
            try:
                wanted = json.loads(data)
                wanted.pop("_ctxkit", None)
            except (ValueError, RecursionError, AttributeError, TypeError):
                assert found == {"session_id": SESSION, "context": transcripts.states[-1]["context"]}
                assert data in [path.read_bytes() for path in transcripts.folder.glob("s.state.json.broken-*")]
            else:
                assert found in (wanted, None)


async def load(store: SessionStore, session_id: str) -> dict[str, object] | None:
    try:
        found = await store.load(session_id)
        return None if found is None else dict(found.state)
    finally:
        await store.aclose()


def test_a_broken_database_of_sessions_is_told_and_left_or_read(quick, volume):
    states = [state_of(Random(SEED), 4), state_of(Random(SEED), 8)]
    asyncio.run(saved(SqliteSessionStore(quick / "made.db"), *states))
    whole = (quick / "made.db").read_bytes()
    for turn in range(volume(short=60, full=1000)):
        with named("database", turn) as chance:
            place = quick / f"{turn}"
            place.mkdir()
            (place / "s.db").write_bytes(broken(whole, turn, chance))
            if turn % 4 == 0:
                (place / "s.db-wal").write_bytes(chance.choice([*BOMBS, chance.randbytes(5000)]))
            store = SqliteSessionStore(place / "s.db", busy_timeout_s=0.1)
            found = asyncio.run(closed(store, state_of(chance, 10)))
            assert found is None or messages_of(found) is not None  # a list, whatever stands in it
            shutil.rmtree(place)


def test_a_broken_lock_file_neither_locks_for_ever_nor_takes_an_epoch_back(quick, volume):
    path = quick / "s.lock"

    async def take() -> int:
        async with SessionLocks(timeout_s=0.5) as locks:
            hold = await locks.take(SESSION, owner=object(), path=path)
            try:
                return hold.epoch
            finally:
                await hold.release()

    last = asyncio.run(take())
    for turn in range(volume(short=60, full=1000)):
        with named("lock", turn) as chance:
            path.write_bytes(broken(path.read_bytes(), turn, chance))
            asyncio.run(held_elsewhere(path))
            epoch = asyncio.run(take())
            assert epoch > last
            last = epoch


async def held_elsewhere(path: Path) -> None:
    """Take a session that is held, so that the record of its holder is read."""
    async with SessionLocks(timeout_s=0.5) as mine, SessionLocks(timeout_s=0) as theirs:
        before = await asyncio.to_thread(path.read_bytes)
        hold = await mine.take(SESSION, owner=object(), path=path)
        await asyncio.to_thread(path.write_bytes, before)
        with pytest.raises(SessionLockedError):
            await theirs.take(SESSION, owner=object(), path=path)
        await hold.release()


def test_a_broken_file_is_repaired_or_left_and_every_good_record_stays(quick, transcripts, volume):
    known = bodies(Random(SEED))
    good = {
        LOG: b"".join(sealed(known)),
        "s.jsonl": transcripts.files["s.jsonl"],
        "s.state.json": transcripts.files["s.state.json"],
    }
    for turn in range(volume(short=120, full=1500)):
        name = list(good)[turn % 3]
        with named(f"repair {name}", turn) as chance:
            folder = quick / f"{turn}" / "agents" / "main" / "sessions"
            folder.mkdir(parents=True)
            data = broken(good[name], turn, chance)
            (folder / name).write_bytes(data)
            try:
                told = repair_file(folder / name, codec=HostCodec(), dry_run=True)
                assert (folder / name).read_bytes() == data
                done = repair_file(folder / name, codec=HostCodec())
            except NewerFormatError:
                continue
            assert told.findings == done.findings
            after = (folder / name).read_bytes()
            if done.outcome in {"failed", "sound"}:
                assert after == data
            elif name != "s.state.json":
                records = [line for line in good[name].split(b"\n") if line.startswith((b'{"id"', b'{"name"'))]
                assert whole_lines(data, records) <= whole_lines(after, records)
                again = repair_file(folder / name, codec=HostCodec(), dry_run=True)
                assert again.outcome == "sound"
            if done.outcome == "repaired" and name != LOG:
                assert done.backup is not None
                assert done.backup.read_bytes() == data
            shutil.rmtree(quick / f"{turn}")
