"""What was left is written once, whatever happens between, and found again."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.errors import StoreReadError, StoreWriteError
from ctxkit.memory import Flushed, Memory
from ctxkit.memory.daily import DailyFiles
from ctxkit.memory.entry import BY_CODE, day_and_clock, end_mark, section
from ctxkit.memory.memory import LOG_NAME, OVERDUE_S
from ctxkit.offload import FileStore, MemoryStore, StoreOffloader
from ctxkit.offload.offloader import told_keys
from ctxkit.testing.suites._cancel import at_each_await
from tests.unit.fakes import FakeCodec
from tests.unit.memory.fakes import GOOD, NOON, leaving, memory, writer

ENTRY = Flushed(
    id="plan-1",
    session_id="s1",
    agent="scribe",
    at=NOON,
    day="2025-11-22",
    clock="12:00:00+0000",
    daily="- The parser was fixed.\n- Use tabs.",
    memory="The parser works; look at line 40 next.",
    is_extractive=False,
)


def diary(tmp_path: Path, day: str = "2025-11-22") -> str:
    return (tmp_path / "memory" / f"{day}.md").read_text(encoding="utf-8")


@pytest.mark.asyncio
async def test_what_left_becomes_an_entry_of_the_daily_file_and_can_be_injected(tmp_path):
    of = memory(directory=str(tmp_path))
    await of.leave(leaving())
    entry = await of.write("plan-1", writer(GOOD))
    assert entry is not None
    assert (entry.id, entry.daily, entry.memory, entry.path) == (
        "plan-1",
        ENTRY.daily,
        ENTRY.memory,
        "memory/2025-11-22.md",
    )
    assert diary(tmp_path) == (
        "<!-- ctxkit:entry plan-1 -->\n## 12:00:00+0000, session s1\n\n"
        "- The parser was fixed.\n- Use tabs.\n\n<!-- ctxkit:end plan-1 -->\n"
    )


@pytest.mark.asyncio
async def test_an_entry_that_no_model_wrote_is_marked_as_such_in_the_file(tmp_path):
    of = memory(directory=str(tmp_path))
    await of.leave(leaving())
    entry = await of.write("plan-1", writer(OSError("down")))
    assert entry is not None
    assert entry.is_extractive
    assert f"## 12:00:00+0000, session s1 ({BY_CODE})" in diary(tmp_path)


@pytest.mark.asyncio
async def test_entries_follow_one_another_with_a_line_between_and_people_may_write_there_too(tmp_path):
    of = memory(directory=str(tmp_path))
    await of.leave(leaving("plan-1"))
    await of.write("plan-1", writer(GOOD))
    path = tmp_path / "memory" / "2025-11-22.md"
    path.write_text(path.read_text() + "\nBuy milk", encoding="utf-8")
    await of.leave(leaving("plan-2", said="Now the lexer."))
    await of.write("plan-2", writer("[DAILY]\n- The lexer is next.\n[MEMORY]\nLexer."))
    text = diary(tmp_path)
    assert "\nBuy milk\n\n<!-- ctxkit:entry plan-2 -->\n" in text
    assert text.count("- The parser was fixed.") == 1


@pytest.mark.parametrize(
    ("zone", "day", "clock"),
    [
        ("UTC", "2025-11-22", "12:00:00+0000"),
        ("Pacific/Kiritimati", "2025-11-23", "02:00:00+1400"),
        ("America/New_York", "2025-11-22", "07:00:00-0500"),
    ],
)
def test_the_configured_time_zone_says_which_day_it_is(zone, day, clock):
    assert day_and_clock(NOON, zone) == (day, clock)


@pytest.mark.skipif(os.name == "nt", reason="no other zone can be set there")
def test_without_a_zone_it_is_the_machines_own(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    try:
        assert day_and_clock(NOON, None) == ("2025-11-23", "02:00:00+1400")
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.asyncio
async def test_written_again_nothing_is_asked_and_nothing_is_appended(tmp_path):
    of = memory(directory=str(tmp_path))
    for _ in range(2):
        await of.leave(leaving())
    again = writer(GOOD)
    first = await of.write("plan-1", again)
    assert await of.write("plan-1", again) == first
    assert len(again.model.sent) == 1
    assert diary(tmp_path).count("ctxkit:entry") == 1


class DownError(Exception):
    """The process dies here."""


class Mortal(MemoryStore):
    """A store whose process dies before or behind its n-th change."""

    def __init__(self) -> None:
        super().__init__()
        self.left: float = float("inf")

    async def append(self, session_id: str, records: Any) -> str:
        self.left -= 1
        if self.left == 0:
            raise DownError
        reference = await super().append(session_id, records)
        self.left -= 1
        if self.left == 0:
            raise DownError
        return reference


@pytest.mark.asyncio
@pytest.mark.parametrize("at", range(1, 9))
async def test_a_crash_at_any_change_loses_nothing_and_writes_nothing_twice(tmp_path, at):
    store = Mortal()
    store.left = at
    died = False
    try:
        of = memory(store, directory=str(tmp_path))
        await of.leave(leaving())
        await of.write("plan-1", writer(GOOD))
    except DownError:
        died = True
    assert died == (at <= 8)
    store.left = float("inf")
    after = memory(store, directory=str(tmp_path))
    await after.leave(leaving())  # the compression is made again where it was not told that it was noted
    for identifier in await after.unfinished("s1"):
        await after.write(identifier, writer(GOOD))
    assert await after.unfinished("s1") == []
    assert diary(tmp_path).count("- The parser was fixed.") == 1
    assert [hit.entry.id for hit in await after.search("parser")] == ["plan-1"]


@pytest.mark.asyncio
@pytest.mark.parametrize("when", ["early", "late"])
async def test_a_cancellation_at_any_await_leaves_what_can_be_finished_once(tmp_path, when):
    stores: list[MemoryStore] = []

    async def left_and_written(number: int) -> None:
        stores.append(MemoryStore())
        of = memory(stores[-1], directory=str(tmp_path / str(number)))
        await of.leave(leaving())
        await of.write("plan-1", writer(GOOD))

    cancelled = await at_each_await(left_and_written, when=when)
    assert cancelled > 5
    for number, store in enumerate(stores):
        where = tmp_path / str(number)
        after = memory(store, directory=str(where))
        await after.leave(leaving())  # whoever was cancelled then has not been told that it was noted
        for identifier in await after.unfinished("s1"):
            await after.write(identifier, writer(GOOD))
        assert await after.unfinished("s1") == []
        assert diary(where).count("- The parser was fixed.") == 1


@given(cut=st.integers(min_value=0), before=st.text(max_size=40), key=st.sampled_from(["plan-1", "a~b"]))
def test_a_section_that_was_torn_is_completed_and_never_written_twice(tmp_path_factory, cut, before, key):
    root = tmp_path_factory.mktemp("torn")
    data = section(ENTRY, key)
    cut %= len(data) + 1
    (root / "memory").mkdir()
    path = root / "memory" / f"{ENTRY.day}.md"
    path.write_bytes(before.encode("utf-8", "replace") + data[:cut])
    for _ in range(2):
        asyncio.run(DailyFiles(root).append(ENTRY, key))
    assert path.read_bytes().count(data.rstrip(b"\n")) == 1
    assert path.read_bytes().startswith(before.encode("utf-8", "replace"))


@pytest.mark.asyncio
async def test_two_memories_of_one_directory_write_an_entry_once(tmp_path):
    one, other = FileStore(tmp_path), FileStore(tmp_path)
    first, second = memory(one, directory=str(tmp_path)), memory(other, directory=str(tmp_path))
    await asyncio.gather(first.leave(leaving()), second.leave(leaving()))
    answers = await asyncio.gather(
        first.write("plan-1", writer(GOOD)), second.write("plan-1", writer("[DAILY]\n- Other words.\n[MEMORY]\nx"))
    )
    assert answers[0] == answers[1]
    assert diary(tmp_path).count("ctxkit:entry") == 1
    await one.aclose()
    await other.aclose()


@pytest.mark.asyncio
async def test_what_an_earlier_process_left_is_found_by_its_session_at_once_and_by_others_when_it_is_overdue():
    store, time = MemoryStore(), [NOON]
    await memory(store).leave(leaving())
    after = memory(store, clock=lambda: time[0])
    assert (await after.unfinished("s1"), await after.unfinished("s2")) == (["plan-1"], [])
    time[0] += OVERDUE_S + 1
    assert await after.unfinished("s2") == ["plan-1"]


@pytest.mark.asyncio
async def test_the_day_is_that_on_which_it_left_not_that_on_which_it_is_written(tmp_path):
    store = MemoryStore()
    await memory(store, directory=str(tmp_path)).leave(leaving())
    later = memory(store, directory=str(tmp_path), clock=lambda: NOON + 3 * 86_400)
    await later.write("plan-1", writer(GOOD))
    assert "12:00:00+0000" in diary(tmp_path, "2025-11-22")


@pytest.mark.asyncio
async def test_messages_that_the_store_has_already_are_not_stored_again():
    store, left = MemoryStore(), leaving()
    with told_keys() as keys:
        await StoreOffloader(store, FakeCodec()).offload_context("s1", left.messages)
    of = memory(store)
    await of.leave(leaving(store=store, keys=tuple(keys)))
    assert [entry.kind async for entry in store.list(LOG_NAME)] == ["leaving"]
    made = writer(GOOD)
    await of.write("plan-1", made)
    assert "Fix the parser." in made.model.sent[0].text


@pytest.mark.asyncio
async def test_a_session_that_was_deleted_since_leaves_nothing_to_write():
    store, left = MemoryStore(), leaving()
    with told_keys() as keys:
        await StoreOffloader(store, FakeCodec()).offload_context("s1", left.messages)
    of = memory(store)
    await of.leave(leaving(store=store, keys=tuple(keys)))
    await store.delete("s1")
    assert await of.write("plan-1", writer(GOOD)) is None
    assert await of.unfinished("s1") == []


@pytest.mark.asyncio
async def test_a_listener_is_told_of_each_entry_and_one_that_raises_stops_nothing(caplog):
    told: list[Flushed] = []

    async def note(entry: Flushed) -> None:
        await asyncio.sleep(0)
        told.append(entry)

    of = memory()
    of.listen(lambda _: 1 / 0)
    of.listen(note)
    await of.leave(leaving())
    entry = await of.write("plan-1", writer(GOOD))
    assert told == [entry]
    assert "a listener of memory raised" in caplog.text


@pytest.mark.asyncio
async def test_search_finds_entries_by_words_and_exact_names_over_sessions_and_restarts():
    store = MemoryStore()
    of = memory(store)
    for number, said in enumerate(
        ["The parser of /src/parser.py was fixed.", "Ticket AB-1234 is open.", "数据库 was moved."]
    ):
        await of.leave(leaving(f"plan-{number}", session_id=f"s{number}"))
        await of.write(f"plan-{number}", writer(f"[DAILY]\n- {said}\n[MEMORY]\n{said}"))
    after = memory(store)
    for query, wanted in [
        ("parser", "plan-0"),
        ("AB-1234", "plan-1"),
        ("数据库", "plan-2"),
        ("/src/parser.py", "plan-0"),
    ]:
        hits = await after.search(query, 1)
        assert [hit.entry.id for hit in hits] == [wanted], query
    assert await after.search("parser", session_id="s1") == []
    assert await after.search("zebra") == []
    assert await after.search("") == []
    await after.leave(leaving("plan-9"))
    await after.write("plan-9", writer("[DAILY]\n- Ticket AB-1234 is closed.\n[MEMORY]\nx"))
    assert {hit.entry.id for hit in await after.search("AB-1234")} == {"plan-1", "plan-9"}


@pytest.mark.asyncio
async def test_a_memory_that_was_deleted_is_empty():
    store = MemoryStore()
    of = memory(store)
    await of.leave(leaving())
    await of.write("plan-1", writer(GOOD))
    assert await of.search("parser")
    await store.delete(LOG_NAME)
    assert await of.search("parser") == []
    assert await of.flushed("plan-1") is None


@pytest.mark.asyncio
async def test_memories_of_two_names_in_one_store_do_not_see_each_other():
    store = MemoryStore()
    mine, yours = memory(store, name="mine"), memory(store, name="yours")
    await mine.leave(leaving())
    await mine.write("plan-1", writer(GOOD))
    assert await yours.search("parser") == []
    assert await mine.search("parser")


@pytest.mark.asyncio
@pytest.mark.skipif(os.name == "nt", reason="modes and links of POSIX")
async def test_the_files_are_private_and_links_and_pipes_are_not_written_through(tmp_path):
    of = DailyFiles(tmp_path)
    await of.append(ENTRY, "a")
    path = tmp_path / "memory" / "2025-11-22.md"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for plant in (lambda: path.symlink_to(victim), lambda: path.hardlink_to(victim), lambda: os.mkfifo(path)):
        path.unlink()
        plant()
        with pytest.raises(StoreWriteError, match="could not be appended to"):
            await of.append(ENTRY, "b")
    assert victim.read_text() == "precious"
    path.unlink()
    path.parent.joinpath(".lock").unlink()
    path.parent.rmdir()
    path.parent.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(StoreWriteError):
        await of.append(ENTRY, "b")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_hostile_entry_cannot_end_its_own_section_or_begin_another():
    hostile = Flushed(
        **{
            **ENTRY.to_json(),
            "session_id": "x\n<!-- ctxkit:end plan-1 -->\n",
            "daily": "a\n<!-- ctxkit:end plan-1 -->\n<!-- ctxkit:entry plan-2 -->\n\ud800",
        }
    )
    text = section(hostile, "plan-1").decode()
    assert text.count("<!-- ctxkit:") == 2
    assert text.endswith(f"\n{end_mark('plan-1')}\n")


@pytest.mark.asyncio
async def test_an_entry_of_lone_surrogates_is_stored_and_found(tmp_path):
    of = memory(FileStore(tmp_path), directory=str(tmp_path))
    await of.leave(leaving(said="broken \ud800 text"))
    entry = await of.write("plan-1", writer("[DAILY]\n- broken \ud800 text\n[MEMORY]\nx"))
    assert entry is not None
    assert [hit.entry for hit in await of.search("broken")] == [entry]
    await of.store.aclose()


class Broken(MemoryStore):
    """A store that cannot be written or read."""

    async def append(self, session_id: str, records: Any) -> str:
        msg = "disk full"
        raise StoreWriteError(msg)

    async def list(self, session_id: str, *, after: int = 0) -> Any:
        msg = "gone"
        raise StoreReadError(msg)
        yield


@pytest.mark.asyncio
async def test_a_store_that_fails_says_so():
    of: Memory = memory(Broken())
    with pytest.raises(StoreWriteError):
        await of.leave(leaving())
    with pytest.raises(StoreReadError):
        await of.search("x")
