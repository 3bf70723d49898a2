"""What the store of transcripts promises beyond the others: its files, and what becomes of broken ones."""

import asyncio
import json
import os
import stat

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ctxkit.errors import NewerFormatError, StoreReadError, StoreWriteError
from ctxkit.offload.directory import Directory
from ctxkit.sessions import SessionEntry, TranscriptSessionStore
from ctxkit.sessions.transcript import file as transcript_file

from .states import Clock, call, message, result, state, talk, text

posix = pytest.mark.skipif(os.name != "posix", reason="links and modes are POSIX")

HEADER = {"type": "session", "version": 1, "id": "s", "timestamp": "2023-11-14T22:13:20.000Z"}


@pytest.fixture
def store(tmp_path):
    store = TranscriptSessionStore(tmp_path / "root", clock=Clock())
    yield store
    asyncio.run(store.aclose())


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "root/agents/main/sessions"


def lines_of(folder, name="s.jsonl"):
    return [json.loads(line) for line in (folder / name).read_bytes().splitlines()]


def message_ids(folder):
    return [line["id"] for line in lines_of(folder)[1:]]


@pytest.mark.asyncio
@pytest.mark.row("O1")
async def test_a_session_is_a_header_and_one_message_a_line_beside_agentscopes_state(store, folder):
    saved = state(*talk(2))
    await store.save("s", saved, entry=SessionEntry(session_id="s", updated_at=0.0, context_tokens=200_000))
    assert lines_of(folder) == [HEADER, *saved["context"]]
    on_disk = json.loads((folder / "s.state.json").read_bytes())
    about = on_disk.pop("_ctxkit")
    assert on_disk == saved
    assert about["version"] == 1
    assert (
        json.loads((folder / "sessions.json").read_bytes())["s"].items()
        >= {
            "sessionId": "s",
            "sessionFile": str(folder / "s.jsonl"),
            "updatedAt": 1_700_000_000_000,
            "contextTokens": 200_000,
            "totalTokens": None,
            "totalTokensFresh": False,
            "compactionCount": 0,
            "delivery": {},
        }.items()
    )
    assert store.lock_path("s") == str(folder / "s.jsonl.lock")


@pytest.mark.asyncio
async def test_the_transcript_only_grows_and_has_each_message_once_though_the_context_is_compressed(
    tmp_path, store, folder
):
    before = b""
    clients = [store, TranscriptSessionStore(tmp_path / "root", clock=Clock())]
    for number in range(10):
        context = talk(number + 1)[number:]  # what is old leaves the context
        await clients[number % 2].save("s", state(*context, summary="so far"))
        now = (folder / "s.jsonl").read_bytes()
        assert now.startswith(before)
        before = now
    await clients[1].aclose()
    assert message_ids(folder) == [one["id"] for one in talk(10)]


@pytest.mark.asyncio
async def test_a_message_that_has_grown_is_written_again_and_one_that_was_cut_is_not(store, folder):
    asked = message("u", "user", "read it")
    first = message("a", "assistant", text("I look", block_id="1"), call())
    grown = message("a", "assistant", text("I look", block_id="1"), call(), result("long " * 50))
    cleared = message("a", "assistant", text("I look", block_id="1"), call(), result("cleared"))
    split = message("a", "assistant", result("cleared"), text("Done", block_id="2"))
    for context in ([asked, first], [asked, grown], [asked, cleared], [cleared], [split], [split]):
        await store.save("s", state(*context))
    assert lines_of(folder)[1:] == [asked, first, grown, split]
    (folder / "s.state.json").unlink()
    found = await store.load("s")
    whole = message(
        "a", "assistant", text("I look", block_id="1"), call(), result("long " * 50), text("Done", block_id="2")
    )
    assert found.state == {"session_id": "s", "context": [asked, whole]}


@pytest.mark.asyncio
async def test_a_state_that_is_broken_is_made_anew_from_the_transcript_and_that_is_told(store, folder):
    await store.save("s", state(*talk(2), summary="kept in the state only"))
    whole = (folder / "s.state.json").read_bytes()
    for broken in (b"", whole[:100], b"\0" * 64, b"[1]", b"[" * 100_000, b"1" * 10_000):
        (folder / "s.state.json").write_bytes(broken)
        found = await store.load("s")
        assert found.state == {"session_id": "s", "context": talk(2)}
        assert "4 messages were taken from the transcript" in found.repairs[0]
        assert any(path.read_bytes() == broken for path in folder.glob("s.state.json.broken-*"))
        assert [row.session_id async for row in store.list()] == ["s"]
    await store.save("s", found.state)
    assert (await store.load("s")).repairs == ()
    assert message_ids(folder) == [one["id"] for one in talk(2)]


@pytest.mark.asyncio
async def test_a_state_and_a_transcript_that_are_both_broken_are_an_error_that_names_the_file(store, folder):
    await store.save("s", state(*talk(2)))
    (folder / "s.state.json").write_bytes(b"{")
    (folder / "s.jsonl").write_bytes(b"\0\0\0")
    with pytest.raises(StoreReadError, match=r"s\.state\.json"):
        await store.load("s")


@pytest.mark.asyncio
async def test_a_state_whose_transcript_was_lost_is_loaded_and_the_transcript_begins_anew(store, folder):
    await store.save("s", state(*talk(2)))
    (folder / "s.jsonl").unlink()
    assert (await store.load("s")).state == state(*talk(2))
    await store.save("s", state(*talk(3)))
    assert message_ids(folder) == [one["id"] for one in talk(3)]


@pytest.mark.asyncio
async def test_broken_lines_of_a_transcript_hide_none_of_the_others(store, folder):
    await store.save("s", state(*talk(3)))
    lines = (folder / "s.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "s.jsonl").write_bytes(
        b"".join([lines[0], b"\xff\xfe{\n", *lines[1:3], b"[" * 5000 + b"\n\n", *lines[3:]])
    )
    (folder / "s.state.json").unlink()
    found = await store.load("s")
    assert found.state["context"] == talk(3)
    assert "2 lines" in found.repairs[1]


@pytest.mark.asyncio
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(cut=1090, junk=b'{"id":"x","role":"user","content":[]}')
@given(
    cut=st.integers(0, 2000),
    junk=st.sampled_from([b"", b"{", b"\0\0", b'{"id":"x"', b'{"id":"x","role":"user","content":[]}']),
)
async def test_a_torn_end_of_a_transcript_is_set_aside_and_nothing_of_the_context_is_missing_from_it(
    tmp_path_factory, cut, junk
):
    root = tmp_path_factory.mktemp("root")
    store = TranscriptSessionStore(root, clock=Clock())
    folder = root / "agents/main/sessions"
    await store.save("s", state(*talk(4)))
    whole = (folder / "s.jsonl").read_bytes()
    (folder / "s.jsonl").write_bytes(whole[: min(cut, len(whole))] + junk)
    await store.save("s", state(*talk(5)))
    await store.aclose()
    found = lines_of(folder)
    assert (folder / "s.jsonl").read_bytes().endswith(b"\n")
    for one in talk(5):
        assert one in found
    aside = [path.read_bytes() for path in folder.glob("s.jsonl.torn-*")]
    assert len(aside) <= 1
    if junk in {b"{", b"\0\0", b'{"id":"x"'}:
        assert aside[0].endswith(junk)


@pytest.mark.asyncio
async def test_what_a_killed_save_has_appended_already_is_not_appended_again(tmp_path, store, folder):
    await store.save("s", state(*talk(2)))
    with (folder / "s.jsonl").open("ab") as file:
        file.write(json.dumps(talk(3)[4]).encode() + b"\n")
    other = TranscriptSessionStore(tmp_path / "root", clock=Clock())
    await other.save("s", state(*talk(3)))
    await other.aclose()
    assert message_ids(folder) == [one["id"] for one in talk(3)]


@pytest.mark.asyncio
@pytest.mark.row("O17")
async def test_a_session_without_an_answer_is_reset_and_its_prompt_then_stands_once(store, folder):
    first = message("u1", "user", "hello")
    await store.save("s", state(first, permission_context={"mode": "bypass"}))
    found = await store.load("s")
    assert found.state == state(permission_context={"mode": "bypass"})
    assert "1 messages were set aside" in found.repairs[0]
    assert lines_of(folder) == [HEADER]
    (aside,) = folder.glob("s.jsonl.reset-*")
    assert json.loads(aside.read_bytes().splitlines()[1]) == first
    assert (await store.load("s")).repairs == ()
    again = message("u2", "user", "hello")
    await store.save("s", state(again, message("a", "assistant", "hi")))
    assert [line.get("role") for line in lines_of(folder)] == [None, "user", "assistant"]
    assert (await store.load("s")).state["context"][0] == again


@pytest.mark.asyncio
async def test_a_session_whose_answers_were_compressed_away_is_not_reset(store):
    for summary in ("they talked", ""):
        await store.save("s", state(*talk(1)))
        await store.save("s", state(message("u9", "user", "next"), summary=summary))
        found = await store.load("s")
        assert found.state["context"] == [message("u9", "user", "next")]
        assert found.repairs == ()
    await store.save("t", state(message("u9", "user", "next"), summary="they talked elsewhere"))
    assert (await store.load("t")).state["context"] == [message("u9", "user", "next")]


@pytest.mark.asyncio
@pytest.mark.row("O19")
async def test_a_session_begins_with_an_empty_file_and_a_row_of_the_index(store, folder):
    await store.create("s")
    assert lines_of(folder) == [HEADER]
    assert json.loads((folder / "sessions.json").read_bytes())["s"]["updatedAt"] == 1_700_000_000_000
    assert [row.session_id async for row in store.list()] == ["s"]
    assert await store.load("s") is None
    await store.save("s", state(*talk(1)))
    await store.create("s")
    assert len(lines_of(folder)) == 3


@pytest.mark.asyncio
async def test_a_newer_format_is_refused_and_not_touched(store, folder):
    await store.save("s", state(*talk(1)))
    await store.save("t", state(*talk(1)))
    newer_state = (folder / "s.state.json").read_bytes().replace(b'"_ctxkit":{"version":1', b'"_ctxkit":{"version":2')
    (folder / "s.state.json").write_bytes(newer_state)
    newer_lines = (folder / "t.jsonl").read_bytes().replace(b'"version":1', b'"version":7')
    (folder / "t.jsonl").write_bytes(newer_lines)
    for name in "st":
        with pytest.raises(NewerFormatError, match="Update ctxkit"):
            await store.load(name)
        with pytest.raises(StoreWriteError, match="Update ctxkit"):
            await store.save(name, state(*talk(2)))
    assert (folder / "s.state.json").read_bytes() == newer_state
    assert (folder / "t.jsonl").read_bytes() == newer_lines
    assert sorted([row.session_id async for row in store.list()]) == ["s", "t"]


@posix
@pytest.mark.asyncio
async def test_everything_is_private_to_its_owner_whatever_the_umask(tmp_path, store):
    before = os.umask(0)
    try:
        await store.save("s", state(*talk(1)), epoch=1)
        await store.save("t", state(*talk(1)))
        await store.trash("t")
    finally:
        os.umask(before)
    for path in (tmp_path / "root").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@posix
@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["s.jsonl", "s.state.json", "sessions.json", ".fences", ".trash"])
@pytest.mark.parametrize("how", ["link", "dangling link", "hard link", "pipe"])
async def test_planted_links_and_pipes_are_not_followed(tmp_path, store, folder, name, how):
    victim = tmp_path / "victim"
    if how == "hard link":
        victim.write_text("precious")
    elif how == "link":
        victim.mkdir() if name.startswith(".") else victim.write_text("precious")
    folder.mkdir(parents=True)
    if how == "hard link":
        (folder / name).hardlink_to(victim)
    elif how == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to(victim)
    for attempt in (
        lambda: store.save("s", state(*talk(2)), epoch=1),
        lambda: store.load("s"),
        lambda: store.trash("s"),
        lambda: store.fence("s", 2),
        lambda: store.rotate_index(max_bytes=0, keep=1),
        lambda: store.delete("s"),
    ):
        try:
            await asyncio.wait_for(attempt(), 5)
        except (StoreWriteError, StoreReadError):
            continue
    async for _ in store.list():
        pass
    if how == "link" and name.startswith("."):
        assert list(victim.iterdir()) == []
    elif how in {"link", "hard link"}:
        assert victim.read_text() == "precious"
    else:
        assert not victim.exists()


@pytest.mark.asyncio
async def test_a_session_named_like_the_index_does_not_touch_it(store, folder):
    await store.save("sessions", state(*talk(1)))
    await store.save("s", state(*talk(1)))
    await store.delete("sessions")
    assert (folder / "sessions.json").exists()
    assert [row.session_id async for row in store.list()] == ["s"]


@pytest.mark.asyncio
async def test_agents_have_directories_of_their_own(tmp_path):
    one, other = (TranscriptSessionStore(tmp_path, agent_id=name) for name in ("main", "../main"))
    await one.save("s", state(*talk(1)))
    assert await other.load("s") is None
    await other.save("s", state(*talk(2)))
    assert (await one.load("s")).state == state(*talk(1))
    assert sorted(path.parts[-3].partition("~")[0] for path in tmp_path.rglob("s.jsonl")) == ["main", "main"]
    await asyncio.gather(one.aclose(), other.aclose())


@pytest.mark.asyncio
async def test_deleting_leaves_nothing_of_a_session_but_its_epoch_and_its_lock(store, folder):
    await store.save("s", state(*talk(1)), epoch=1)
    (folder / "s.jsonl.lock").touch()
    (folder / "s.jsonl.lock.7").touch()  # the marker of an owner on a file system without locks
    (folder / "s.state.json").write_bytes(b"{")
    await store.load("s")
    (folder / "s.jsonl.bak-12-34").touch()
    await store.delete("s")
    left = [".fences", ".lock", "s.jsonl.lock", "s.jsonl.lock.7", "sessions.json"]
    assert sorted(path.name for path in folder.iterdir()) == left


@pytest.mark.asyncio
@pytest.mark.parametrize("failing", ["write_all", "sync_file"])
async def test_a_failed_append_is_taken_back_and_the_state_before_stays(store, folder, monkeypatch, failing):
    await store.save("s", state(*talk(1)))
    before = (folder / "s.jsonl").read_bytes()
    real = getattr(transcript_file, failing)

    def fail(descriptor, *data):
        if data:
            real(descriptor, data[0][:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(transcript_file, failing, fail)
        with pytest.raises(StoreWriteError, match="No space left"):
            await store.save("s", state(*talk(2)))
    assert (folder / "s.jsonl").read_bytes() == before
    assert (await store.load("s")).state == state(*talk(1))
    await store.save("s", state(*talk(2)))
    assert message_ids(folder) == [one["id"] for one in talk(2)]


@pytest.mark.asyncio
async def test_a_save_that_failed_between_transcript_and_state_is_made_good_by_the_next_one(store, folder, monkeypatch):
    await store.save("s", state(*talk(1)))
    real = Directory.replace

    def fail(self, name, data):
        if name.endswith(".state.json"):
            raise OSError(5, "Input/output error")
        real(self, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(Directory, "replace", fail)
        for _ in range(2):
            with pytest.raises(StoreWriteError, match="Input/output error"):
                await store.save("s", state(*talk(2)))
    assert (await store.load("s")).state == state(*talk(1))
    await store.save("s", state(*talk(2)))
    assert (await store.load("s")).state == state(*talk(2))
    assert message_ids(folder) == [one["id"] for one in talk(2)]
