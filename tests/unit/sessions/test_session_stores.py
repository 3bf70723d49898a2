"""What every session store promises, on each of ctxkit's own."""

import asyncio
import json
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctxkit.errors import StaleOwnerError, StoreWriteError
from ctxkit.sessions import (
    MemorySessionStore,
    Peeks,
    SessionEntry,
    SessionStore,
    SqliteSessionStore,
    TranscriptSessionStore,
    Trashes,
)
from tests.unit.offload.test_names import HOSTILE, identifiers

from .states import Clock, message, state, talk


class Place:
    """Where the sessions of a test are, and any number of stores on them."""

    def __init__(self, kind, path):
        self.clock = Clock()
        self.kind = kind
        self.path = path
        self._memory = MemorySessionStore(clock=self.clock)
        self._open = []

    def store(self):
        if self.kind == "memory":
            return self._memory
        if self.kind == "sqlite":
            store = SqliteSessionStore(self.path / "sessions.db", clock=self.clock)
        else:
            store = TranscriptSessionStore(self.path / "root", clock=self.clock)
        self._open.append(store)
        return store

    async def close(self):
        for store in self._open:
            await store.aclose()


@pytest.fixture(params=["memory", "sqlite", "transcript"])
def place(request, tmp_path):
    place = Place(request.param, tmp_path)
    yield place
    asyncio.run(place.close())


@pytest.fixture
def store(place):
    return place.store()


async def ids(store):
    return [row.session_id async for row in store.list()]


async def in_trash(store):
    return [(one.session_id, one.trashed_at) async for one in store.trashed()]


def test_it_is_a_session_store_with_a_trash_and_a_look_at_one_row(store):
    assert isinstance(store, SessionStore)
    assert isinstance(store, Trashes)
    assert isinstance(store, Peeks)


@pytest.mark.asyncio
async def test_what_was_saved_is_loaded_as_it_was_also_by_another_client(place):
    saved = state(*talk(3), summary="é \u2028 \x00 漢字 😀", middle_context={"ctxkit": {"meter": {"version": 1}}})
    await place.store().save("s", saved)
    for store in (place.store(), place.store()):
        found = await store.load("s")
        assert found.state == saved
        assert found.entry.session_id == "s"
        assert found.repairs == ()


@pytest.mark.asyncio
async def test_a_later_save_takes_the_place_of_the_one_before(place, store):
    await store.save("s", state(*talk(3)))
    await place.store().save("s", state(*talk(5), summary="all"))
    await store.save("s", state(*talk(1, first=4), summary="more"))
    assert (await place.store().load("s")).state == state(*talk(1, first=4), summary="more")
    assert await ids(store) == ["s"]


@pytest.mark.asyncio
async def test_an_unknown_session_is_none_and_deleting_it_is_no_error(store):
    assert await store.load("nobody") is None
    assert await store.peek("nobody") is None
    assert await store.epoch("nobody") == 0
    await store.delete("nobody")
    assert await ids(store) == []
    assert await in_trash(store) == []


@pytest.mark.asyncio
async def test_the_last_saved_is_listed_first_with_the_time_of_its_save(place, store):
    for at, name in ((5.0, "b"), (9.0, "a"), (7.0, "c")):
        place.clock.now = at
        await store.save(name, state(*talk(1), session_id=name))
    rows = [row async for row in place.store().list()]
    assert [(row.session_id, row.updated_at) for row in rows] == [("a", 9.0), ("c", 7.0), ("b", 5.0)]
    assert rows == [await store.peek(row.session_id) for row in rows]


@pytest.mark.asyncio
async def test_what_the_row_says_is_kept_until_something_else_is_said(place, store):
    said = SessionEntry(
        session_id="of no account",
        updated_at=-1.0,
        agent_id="scribe",
        context_tokens=32_000,
        total_tokens=1234,
        total_tokens_fresh=True,
        compaction_count=2,
        size=-1,
        delivery={"channel": "telegram", "peer": "ä"},
    )
    await store.save("s", state(*talk(1)), entry=said)
    await place.store().save("s", state(*talk(2)))
    row = (await place.store().load("s")).entry
    assert (row.session_id, row.agent_id, row.context_tokens, row.total_tokens) == ("s", "scribe", 32_000, 1234)
    assert (row.total_tokens_fresh, row.compaction_count, row.delivery) == (True, 2, said.delivery)
    assert row.size > 0
    assert row.updated_at > 0


@pytest.mark.asyncio
async def test_two_saves_at_the_same_moment_can_be_told_apart(store):
    await store.save("s", state(*talk(1)))
    before = await store.peek("s")
    await store.save("s", state(*talk(1)))
    assert (await store.peek("s")).updated_at != before.updated_at


@pytest.mark.asyncio
async def test_no_owner_writes_after_a_higher_epoch_has_saved_or_fenced(place):
    old, new = place.store(), place.store()
    await old.save("s", state(*talk(1)), epoch=3)
    await new.save("s", state(*talk(2)), epoch=4)
    with pytest.raises(StaleOwnerError, match="'s'"):
        await old.save("s", state(*talk(9)), epoch=3)
    await new.fence("s", 7)
    with pytest.raises(StaleOwnerError):
        await new.save("s", state(*talk(9)), epoch=6)
    with pytest.raises(StaleOwnerError):
        await old.fence("s", 6)
    assert (await old.load("s")).state == state(*talk(2))
    await old.save("s", state(*talk(4)), epoch=7)
    await old.save("s", state(*talk(5)))
    assert (await new.load("s")).state == state(*talk(5))
    assert await new.epoch("s") == 7
    await new.save("another", state(*talk(1)), epoch=1)


@pytest.mark.asyncio
async def test_an_owner_that_lost_a_session_cannot_bring_it_back_from_the_dead(store):
    await store.save("s", state(*talk(1)), epoch=5)
    await store.delete("s")
    with pytest.raises(StaleOwnerError):
        await store.save("s", state(*talk(1)), epoch=4)
    await store.fence("t", 2)
    assert await ids(store) == []
    assert await store.load("s") is None
    assert await store.load("t") is None


@pytest.mark.asyncio
async def test_a_session_that_was_deleted_begins_anew(place, store):
    await store.save("s", state(*talk(3)))
    await store.save("t", state(*talk(2)))
    await place.store().delete("s")
    assert await store.load("s") is None
    assert await ids(store) == ["t"]
    await store.save("s", state(*talk(1, first=8)))
    assert (await place.store().load("s")).state == state(*talk(1, first=8))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "wrong", [{"a": object()}, {"a": {1, 2}}, {"a": float("nan")}, {"a": b"x"}], ids=["object", "set", "nan", "bytes"]
)
async def test_what_is_no_plain_json_is_refused_and_the_one_before_stays(store, wrong):
    await store.save("s", state(*talk(1)))
    with pytest.raises(StoreWriteError, match="plain JSON"):
        await store.save("s", state(*talk(2), middle_context=wrong))
    assert (await store.load("s")).state == state(*talk(1))


@pytest.mark.asyncio
async def test_half_a_character_does_not_keep_a_session_from_being_saved(store):
    await store.save("s", state(message("u", "user", "a\ud800b"), message("a", "assistant", "x")))
    assert (await store.load("s")).state["context"][0]["content"][0]["text"] == "a?b"


@pytest.mark.asyncio
async def test_hostile_ids_are_sessions_like_all_others_and_none_meets_another(place, store):
    names = list(dict.fromkeys(HOSTILE))
    for name in names:
        await store.save(
            name, state(*talk(1), session_id="x", summary=name.encode("utf-8", "replace").decode()), epoch=1
        )
    assert sorted(await ids(place.store())) == sorted(names)
    for name in names:
        assert (await store.load(name)).state["summary"] == name.encode("utf-8", "replace").decode()
    for name in names[::2]:
        await store.delete(name)
        assert await store.trash(names[1]) in {True, False}
    assert set(await ids(store)) == set(names[1::2]) - {names[1]}
    outside = [
        path
        for path in place.path.iterdir()
        if path.name not in {"sessions.db", "sessions.db-wal", "sessions.db-shm", "root"}
    ]
    assert outside == []


@pytest.mark.asyncio
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.dictionaries(
        identifiers,
        st.recursive(
            st.one_of(
                st.none(), st.booleans(), st.integers(), st.text(), st.floats(allow_nan=False, allow_infinity=False)
            ),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
            ),
            max_leaves=8,
        ).map(lambda value: json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))),
        max_size=4,
    )
)
async def test_any_json_comes_back_as_it_was(store, values):
    for name, value in values.items():
        await store.save(name, state(value, *talk(1), middle_context={"_ctxkit": value}, extra=value))
    for name, value in values.items():
        found = (await store.load(name)).state
        assert found == state(value, *talk(1), middle_context={"_ctxkit": value}, extra=value)


@pytest.mark.asyncio
async def test_many_tasks_save_and_each_session_has_its_own_last_one(store):
    async def work(number):
        for count in (1, 2, 3):
            await store.save(f"s{number}", state(*talk(count, first=number)))

    await asyncio.gather(*(work(number) for number in range(12)))
    for number in range(12):
        assert (await store.load(f"s{number}")).state == state(*talk(3, first=number))


@pytest.mark.asyncio
async def test_a_save_that_was_cancelled_is_there_wholly_or_not_at_all_and_the_next_one_works(place, store):
    await store.save("s", state(*talk(1)))
    for number in range(20):
        task = asyncio.create_task(store.save("s", state(*talk(2, first=number))))
        for _ in range(number % 5):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert (await place.store().load("s")).state in [
            state(*talk(1)),
            *(state(*talk(2, first=n)) for n in range(number + 1)),
        ]
    await store.save("s", state(*talk(3)))
    assert (await place.store().load("s")).state == state(*talk(3))


@pytest.mark.asyncio
async def test_what_is_in_the_trash_is_not_there_until_it_is_brought_back(place, store):
    await store.save("s", state(*talk(3)), epoch=2)
    place.clock.now += 100
    assert await store.trash("s")
    assert (await store.load("s"), await store.peek("s"), await ids(store)) == (None, None, [])
    assert await in_trash(place.store()) == [("s", place.clock.now)]
    assert await place.store().untrash("s")
    assert (await store.load("s")).state == state(*talk(3))
    assert await ids(store) == ["s"]
    assert await in_trash(store) == []
    assert not await store.untrash("s")
    assert not await store.trash("nobody")


@pytest.mark.asyncio
async def test_a_session_that_was_saved_since_is_not_trashed(store):
    await store.save("s", state(*talk(1)))
    seen = (await store.peek("s")).updated_at
    await store.save("s", state(*talk(2)))
    assert not await store.trash("s", saved_at=seen)
    assert (await store.load("s")).state == state(*talk(2))
    assert await store.trash("s", saved_at=(await store.peek("s")).updated_at)


@pytest.mark.asyncio
async def test_a_new_session_of_the_same_id_leaves_the_one_in_the_trash_alone(place, store):
    for number in range(3):
        await store.save("s", state(*talk(1, first=number)))
        assert await store.trash("s")
    await store.save("s", state(*talk(1, first=9)))
    assert not await store.untrash("s")
    assert [name for name, _ in await in_trash(store)] == ["s"] * 3
    times = [at for _, at in await in_trash(store)]
    await store.purge("s", trashed_before=times[-1])
    assert await in_trash(store) == [("s", times[-1])]
    await store.delete("s")
    assert await place.store().untrash("s")
    assert (await store.load("s")).state == state(*talk(1, first=2))
    await store.purge("s", trashed_before=float(10**12))
    assert (await store.load("s")).state == state(*talk(1, first=2))


@pytest.mark.asyncio
async def test_a_store_can_be_closed_twice_and_used_again(store):
    await store.save("s", state(*talk(1)))
    await store.aclose()
    await store.aclose()
    assert (await store.load("s")).state == state(*talk(1))


@pytest.mark.asyncio
async def test_the_lock_of_each_session_is_another_file(store):
    paths = {store.lock_path(name) for name in ("a", "A", "../a")}
    assert paths == {None} or len(paths) == 3
