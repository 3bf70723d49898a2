"""Promises of a session store: the last state that was saved, whole, for its owner only."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from ctxkit.errors import StaleOwnerError
from ctxkit.sessions.store import SessionEntry, SessionStore
from ctxkit.testing.suites._base import Bench, Suite, place_in, promise, refused, run
from ctxkit.testing.suites._cancel import When, at_each_await
from ctxkit.testing.suites._processes import Child, all_at_once, must_outlive, must_share, one_after_another
from ctxkit.testing.suites._samples import HOSTILE_IDS, TEXTS

_SESSION: Final = "session-1"
_WHEN: Final[Sequence[When]] = ("early", "late")
_LONGEST_S: Final = 0.08
"""Seconds from the first acknowledgement to the kill, at most."""
_TIME: Final = "2026-01-01T00:00:00"
_TICK_S: Final = 0.05
"""Clocks of file systems and databases tell times apart that are so far from each other."""

Say = Callable[[str], None]


class SessionPromises(Suite[SessionStore]):
    """What a session store promises."""

    def open_store(self, place: Path) -> SessionStore | Awaitable[SessionStore]:
        """Return a session store that keeps its data in a place; may be `async def`. See `StoreSuite.open_store`."""
        return super()._open(place)

    def _open(self, place: Path) -> SessionStore | Awaitable[SessionStore]:
        return self.open_store(place)

    @promise
    async def test_a_state_comes_back_as_it_was_saved(self, bench: Bench[SessionStore]) -> None:
        store = await bench.open()
        assert await store.load(_SESSION) is None, "a session that was never saved is None"
        for state in (*(_state(text) for text in TEXTS), _state("x" * (2 << 20)), _state("small again")):
            await store.save(_SESSION, state)
            assert await _loaded(store, _SESSION) in (state, _without_surrogates(state))

    @promise
    async def test_a_state_is_a_copy(self, bench: Bench[SessionStore]) -> None:
        store = await bench.open()
        state = dict(_state("one"))
        await store.save(_SESSION, state)
        state["session_id"] = "changed"
        first = await _loaded(store, _SESSION)
        assert first == _state("one"), "changing what was passed changes what is saved"
        dict(first)["session_id"] = "changed"
        assert await _loaded(store, _SESSION) == _state("one")

    @promise
    async def test_the_index_says_what_was_saved_the_newest_first(self, bench: Bench[SessionStore]) -> None:
        store = await bench.open()
        assert [entry async for entry in store.list()] == []
        entry = SessionEntry(
            session_id="", updated_at=0.0, agent_id="bob", context_tokens=8000, total_tokens=5000, compaction_count=3,
            delivery={"channel": "mail"},
        )  # fmt: skip
        await store.save("one", _state("one"), entry=entry)
        await asyncio.sleep(_TICK_S)
        await store.save("two", _state("two"))
        await asyncio.sleep(_TICK_S)
        await store.save("one", _state("again"))
        listed = [entry async for entry in store.list()]
        assert [entry.session_id for entry in listed] == ["one", "two"], "the last saved comes first"
        kept = listed[0]
        assert (kept.agent_id, kept.context_tokens, kept.total_tokens, kept.compaction_count, dict(kept.delivery)) == (
            "bob", 8000, 5000, 3, {"channel": "mail"},
        ), "a save without an entry keeps what the index said"  # fmt: skip
        assert kept.updated_at > listed[1].updated_at > 0
        saved = await store.load("one")
        assert saved is not None
        assert saved.entry == kept

    @promise
    async def test_any_text_is_a_session_of_its_own(self, bench: Bench[SessionStore]) -> None:
        store = await bench.open()
        for number, session in enumerate(HOSTILE_IDS):
            await store.save(session, _state(f"text {number}"))
        for number, session in enumerate(HOSTILE_IDS):
            assert await _loaded(store, session) == _state(f"text {number}"), f"session {session[:40]!r}"
        names = {entry.session_id async for entry in store.list()}
        assert len(names) == len(HOSTILE_IDS)
        for session in HOSTILE_IDS:
            assert await store.load(session) is not None, f"{session[:40]!r} was deleted together with another session"
            await store.delete(session)
            assert await store.load(session) is None, f"{session[:40]!r} was not deleted"
        assert await asyncio.to_thread(bench.escaped) == [], "an id reached outside of the place"

    @promise
    async def test_a_deleted_session_is_gone(self, bench: Bench[SessionStore]) -> None:
        store = await bench.open()
        await store.delete("nobody")
        await store.save(_SESSION, _state("one"))
        await store.save("other", _state("two"))
        await store.delete(_SESSION)
        await store.delete(_SESSION)
        assert await store.load(_SESSION) is None
        assert [entry.session_id async for entry in store.list()] == ["other"]
        await store.save(_SESSION, _state("anew"))
        assert await _loaded(store, _SESSION) == _state("anew")

    @promise
    async def test_an_owner_saves_until_a_higher_epoch_is_used(self, bench: Bench[SessionStore]) -> None:
        store = await bench.open()
        await store.save(_SESSION, _state("first"), epoch=1)
        await store.save(_SESSION, _state("second"), epoch=3)
        with refused(StaleOwnerError, "save with an epoch below one that has saved"):
            await store.save(_SESSION, _state("stale"), epoch=2)
        await store.fence(_SESSION, 5)
        with refused(StaleOwnerError, "save with an epoch below the fence"):
            await store.save(_SESSION, _state("stale"), epoch=4)
        with refused(StaleOwnerError, "a fence below the highest one"):
            await store.fence(_SESSION, 4)
        assert await _loaded(store, _SESSION) == _state("second"), "a refused save has changed the state"
        await store.save("other", _state("mine"), epoch=1)
        await store.fence(_SESSION, 5)
        await store.save(_SESSION, _state("fifth"), epoch=5)
        assert await _loaded(store, _SESSION) == _state("fifth")

    @promise
    async def test_what_was_saved_and_fenced_outlives_its_client(self, bench: Bench[SessionStore]) -> None:
        store = await bench.open()
        other = await bench.open()
        await store.save(_SESSION, _state("one"), epoch=2)
        assert await _loaded(other, _SESSION) == _state("one"), "what one client saved is seen by another"
        await other.fence(_SESSION, 7)
        with refused(StaleOwnerError, "save after another client fenced the session"):
            await store.save(_SESSION, _state("stale"), epoch=2)
        await bench.close()
        again = await bench.open()
        assert await _loaded(again, _SESSION) == _state("one")
        with refused(StaleOwnerError, "save with an epoch below the one that was fenced before the place was opened"):
            await again.save(_SESSION, _state("stale"), epoch=6)

    @promise
    async def test_many_tasks_at_once_save_whole_states(self, bench: Bench[SessionStore]) -> None:
        store = await bench.open()

        async def save(task: int) -> None:
            for number in range(4):
                await store.save(f"own-{task}", _state(f"{task} {number}"))
                await store.save(_SESSION, _state(f"{task} {number}"))
                saved = await _loaded(store, _SESSION)
                assert saved == _state(_text(saved)), "a state is there in part, or mixed"

        await asyncio.gather(*(save(task) for task in range(16)))
        for task in range(16):
            assert await _loaded(store, f"own-{task}") == _state(f"{task} 3")

    @promise
    async def test_a_cancelled_save_leaves_the_old_state_or_the_new_one(self, bench: Bench[SessionStore]) -> None:
        store = await bench.open()
        for when in _WHEN:
            await store.save(_SESSION, _state("before"))

            async def save(number: int, when: When = when) -> None:
                await store.save(_SESSION, _state(f"{when} {number} " + "x" * 50_000))

            await at_each_await(save, when=when)
            saved = await _loaded(store, _SESSION)
            assert saved == _state(_text(saved))
            await store.save(_SESSION, _state("after"))
            assert await _loaded(store, _SESSION) == _state("after"), "a save that was cancelled came in behind another"

    def test_a_killed_process_leaves_the_last_state_that_it_was_told_or_a_newer_one(self, tmp_path: Path) -> None:
        must_outlive(self)
        chance = random.Random(1)
        children = one_after_another(self, place_in(tmp_path), "save_until_killed", calls=[("s",)] * self.kills)
        with closing(children):
            for child in children:
                child.go()
                child.wait_for_a_word()
                said = child.kill_after(chance.uniform(0.0, _LONGEST_S))
                run(self, tmp_path, partial(_check, session="s", least=int(said[-1])))

    def test_many_processes_at_once_save_whole_states(self, tmp_path: Path) -> None:
        must_share(self)
        place, count = place_in(tmp_path), str(self.appends)
        with (
            Child(self, place, "save_all", "s", "one", count) as one,
            Child(self, place, "save_all", "s", "two", count) as two,
        ):
            all_at_once((one, two))
            one.finish()
            two.finish()

        async def check(_: Any, bench: Bench[SessionStore]) -> None:
            store = await bench.open()
            assert await _loaded(store, "s") == _numbered(self.appends - 1)
            for name in ("one", "two"):
                assert await _loaded(store, f"s-{name}") == _numbered(self.appends - 1)

        run(self, tmp_path, check)

    async def save_until_killed(self, store: SessionStore, say: Say, session: str) -> None:
        """Save one state after another, in a process of its own, and say the number of each that was acknowledged."""
        number = 0
        while True:
            await store.save(session, _numbered(number))
            say(str(number))
            number += 1

    async def save_all(self, store: SessionStore, say: Say, session: str, name: str, count: str) -> None:
        """Save so many states of a shared session and of one's own, in a process of its own."""
        for number in range(int(count)):
            await store.save(session, _numbered(number))
            await store.save(f"{session}-{name}", _numbered(number))


async def _check(_: object, bench: Bench[SessionStore], *, session: str, least: int) -> None:
    store = await bench.open()
    saved = await _loaded(store, session)
    number = int(_text(saved).split()[0])
    assert saved == _numbered(number), "the state is there in part"
    assert number >= least, f"state {least} was acknowledged, but state {number} is there"
    await store.save(session, _numbered(0))
    assert await _loaded(store, session) == _numbered(0)


def _state(text: str) -> Mapping[str, Any]:
    """Return a state as the host dumps it, as far as a store may care."""
    block = {"type": "text", "id": "b1", "text": text}
    message = {"id": "m1", "name": "user", "role": "user", "content": [block], "metadata": {}, "created_at": _TIME}
    # A user's message without an answer is not gone on with.
    answer = {**message, "id": "m2", "name": "bob", "role": "assistant", "content": [{**block, "text": "yes"}]}
    return {"session_id": _SESSION, "summary": "", "context": [message, answer], "reply_id": "r1", "cur_iter": 0}


def _text(state: Mapping[str, Any]) -> str:
    return str(state["context"][0]["content"][0]["text"])


def _without_surrogates(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a state as it is where lone surrogates, which are no characters, became `?`."""
    found: Mapping[str, Any] = json.loads(json.dumps(state, ensure_ascii=False).encode("utf-8", "replace"))
    return found


def _numbered(number: int) -> Mapping[str, Any]:
    return _state(f"{number} " + "x" * (number * 7919 % 90_000))


async def _loaded(store: SessionStore, session: str) -> Mapping[str, Any]:
    saved = await store.load(session)
    assert saved is not None, f"session {session[:40]!r} is not there"
    return saved.state
