"""The index of the transcripts is a cache: whatever becomes of it, the sessions are there."""

import asyncio
import json
from pathlib import Path

import pytest

from ctxkit.offload.directory import Directory
from ctxkit.sessions import SessionEntry, TranscriptSessionStore
from ctxkit.sessions.transcript.index import CACHE_S, Index

from .states import Clock, state, talk


@pytest.fixture
def store(tmp_path):
    store = TranscriptSessionStore(tmp_path, clock=Clock())
    yield store
    asyncio.run(store.aclose())


@pytest.fixture
def index(tmp_path):
    return tmp_path / "agents/main/sessions/sessions.json"


async def rows(store):
    return [row async for row in store.list()]


async def save_three(store):
    for number, name in enumerate(("a", "B", "c")):
        store._clock.now += 10
        row = SessionEntry(session_id=name, updated_at=0.0, compaction_count=number, delivery={"peer": name})
        await store.save(name, state(*talk(number + 1)), entry=row)


@pytest.mark.asyncio
@pytest.mark.row("O1")
@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b"null", b"{\n}\n", b"\0" * 100, b'{\n"a":{}\n}\n', b'{\n"a":1\n}\n', b"[" * 100_000, None],
    ids=["empty", "torn", "list", "null", "no rows", "zeros", "no row", "number", "bomb", "gone"],
)
async def test_an_index_that_is_lost_or_broken_is_made_anew_from_the_files(tmp_path, store, index, damage):
    await save_three(store)
    before = await rows(store)
    good = index.read_bytes()
    if damage is None:
        index.unlink()
    else:
        index.write_bytes(damage)
    another = TranscriptSessionStore(tmp_path, clock=Clock())
    assert await rows(store) == before
    assert await rows(another) == before
    assert json.loads(index.read_bytes()) == json.loads(good)
    await store.save("a", state(*talk(9)))
    assert {row.session_id for row in await rows(another)} == {"a", "B", "c"}
    await another.aclose()


@pytest.mark.asyncio
async def test_rows_of_sessions_that_others_saved_or_removed_behind_its_back_are_put_right(tmp_path, store, index):
    await save_three(store)
    old = index.read_bytes()
    await store.save("c", state(*talk(5)), entry=SessionEntry(session_id="c", updated_at=0.0, compaction_count=9))
    await store.save("d", state(*talk(1)))
    await store.delete("a")
    before = await rows(store)
    index.write_bytes(old)  # as if its last writers had been killed before they wrote it
    assert await rows(store) == before
    another = TranscriptSessionStore(tmp_path)
    assert await rows(another) == before
    await another.aclose()


@pytest.mark.asyncio
async def test_an_index_that_cannot_be_written_fails_no_save(store, index, caplog):
    await store.save("a", state(*talk(1)))
    index.unlink()
    index.mkdir()
    await store.save("b", state(*talk(1)))
    assert {row.session_id for row in await rows(store)} == {"a", "b"}
    assert "could not be written" in caplog.text


@pytest.mark.asyncio
async def test_a_file_that_no_session_made_is_no_session(store, index):
    await store.save("a", state(*talk(1)))
    for name in ("x~y.state.json", "notes.txt", "A.jsonl", ".hidden.jsonl", "b.state.json.bak"):
        (index.parent / name).write_bytes(b"{}")
    assert [row.session_id for row in await rows(store)] == ["a"]
    (index.parent / "plain.state.json").write_text(json.dumps(state(*talk(1))))
    assert {row.session_id for row in await rows(store)} == {"a", "plain"}
    assert (await store.load("plain")).state == state(*talk(1))


@pytest.mark.asyncio
async def test_a_file_that_claims_another_sessions_id_does_not_hide_it(store, index):
    await store.save("a", state(*talk(1)))
    (index.parent / "b.state.json").write_bytes((index.parent / "a.state.json").read_bytes())
    assert sorted(row.session_id for row in await rows(store)) == ["a", "b"]


@pytest.mark.asyncio
async def test_an_index_above_its_limit_is_set_aside_and_three_of_those_are_kept(store, index):
    await save_three(store)
    before = await rows(store)
    assert not await store.rotate_index(max_bytes=index.stat().st_size, keep=3)
    for _ in range(5):
        store._clock.now += 1
        old = index.read_bytes()
        assert await store.rotate_index(max_bytes=len(old) - 1, keep=3)
        newest = max(index.parent.glob("sessions.json.bak.*"), key=lambda path: int(path.suffix[1:]))
        assert newest.read_bytes() == old
        assert await rows(store) == before
    assert len(list(index.parent.glob("sessions.json.bak.*"))) == 3


@pytest.mark.may_block("reads a file to count how often it does")
def test_an_unchanged_index_is_read_again_after_45_seconds(tmp_path, monkeypatch):
    now, reads = Clock(0.0), []
    index = Index(lambda *_: None, monotonic=now)
    real = Path(tmp_path / "sessions.json")
    real.write_text('{\n"a":{"sessionId":"a","updatedAt":1,"stamp":"x"}\n}\n')
    monkeypatch.setattr(
        "ctxkit.sessions.transcript.index.read_bytes", lambda *_: reads.append(now.now) or real.read_bytes()
    )
    with Directory.at(tmp_path, create=False) as folder:
        for at in (0.0, 1.0, CACHE_S - 1, CACHE_S + 1, CACHE_S + 2):
            now.now = at
            index._read(folder)
        assert reads == [0.0, CACHE_S + 1]
        real.write_text("{\n}\n")
        index._read(folder)
        assert reads == [0.0, CACHE_S + 1, CACHE_S + 2]


@pytest.mark.asyncio
async def test_a_list_of_five_thousand_sessions_takes_no_long_time(tmp_path, index):
    index.parent.mkdir(parents=True)
    saved = json.dumps(state(*talk(1)))
    for number in range(5000):
        about = {"version": 1, "sessionId": f"s{number}", "updatedAt": 1000 + number}
        (index.parent / f"s{number}.state.json").write_text(f'{saved[:-1]},"_ctxkit":{json.dumps(about)}}}')
    store = TranscriptSessionStore(tmp_path)
    assert len(await rows(store)) == 5000
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert (await rows(store))[0].session_id == "s4999"
    assert loop.time() - started < 1.0  # 0.05 s on an idle machine
    await store.aclose()
