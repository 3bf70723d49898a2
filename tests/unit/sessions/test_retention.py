"""Which sessions retention removes, which it leaves for now and says so, and what no wrong clock makes it remove."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.errors import ConfigError, StoreWriteError
from ctxkit.sessions import (
    MemorySessionStore,
    Retention,
    SessionEntry,
    SessionLocks,
    SqliteSessionStore,
    TranscriptSessionStore,
    TrashedSession,
    maintain,
    plan_retention,
)
from ctxkit.sessions.retention import DAY_S

from .states import Clock, state, talk

NOW = 1_700_000_000.0


def aged(*days, now=NOW):
    """Return one session for each age, named by its place."""
    return [SessionEntry(session_id=f"s{at}", updated_at=now - age * DAY_S) for at, age in enumerate(days)]


def names(plan):
    return [one.entry.session_id for one in plan.removed]


@pytest.mark.row("O2")
def test_five_thousand_sessions_come_down_to_the_newest_five_hundred_pass_by_pass():
    entries = aged(*(number / 200 for number in range(5000)))  # 0 to 25 days
    alive, passes = entries, 0
    while (plan := plan_retention(alive, Retention(), now=NOW)).removed:
        gone = {one.entry.session_id for one in plan.removed}
        assert len(gone) <= len(alive) // 10
        assert len(gone) + len(plan.delayed) == len(alive) - 500
        assert all("10%" in one.guard for one in plan.delayed)
        assert gone == {one.session_id for one in sorted(alive, key=lambda one: one.updated_at)[: len(gone)]}
        alive, passes = [one for one in alive if one.session_id not in gone], passes + 1
    assert alive == entries[:500]
    assert passes == 22


@pytest.mark.row("C8")
@pytest.mark.row("O2")
def test_sessions_older_than_thirty_days_go_and_the_reason_says_their_age():
    entries = aged(*([1] * 25), 29.9, 30.1, 400)
    plan = plan_retention(entries, Retention(), now=NOW)
    assert names(plan) == ["s27", "s26"]
    assert plan.removed[0].reason == "saved last 400 days ago, and 30 are kept"
    assert plan.delayed == []


def test_the_newest_twenty_stay_however_old_they_are_and_the_guard_is_named():
    plan = plan_retention(aged(*range(40, 62)), Retention(), now=NOW)
    assert names(plan) == ["s21", "s20"]
    assert [one.guard for one in plan.delayed] == ["the newest 20 stay"] * 20


def test_at_least_one_goes_in_a_pass_however_few_there_are():
    plan = plan_retention(aged(*[1] * 4, 40, 50), Retention(keep_newest=1), now=NOW)
    assert names(plan) == ["s5"]
    assert [(one.entry.session_id, one.guard) for one in plan.delayed] == [
        ("s4", "at most 10% go in one pass, at least one: 1 of 6")
    ]


def test_a_session_in_use_stays_and_counts_for_nobody_elses_guard():
    plan = plan_retention(aged(*[1] * 30, 40, 50, 60), Retention(), now=NOW, in_use=["s32", "s31"])
    assert names(plan) == ["s30"]
    assert [(one.entry.session_id, one.guard) for one in plan.delayed] == [
        ("s32", "it is in use"),
        ("s31", "it is in use"),
    ]


@pytest.mark.parametrize("years", [10, -10, 1.1, -0.01])
def test_a_clock_that_jumps_by_years_removes_nothing_and_says_why(years):
    entries = aged(*[1] * 600, *[40] * 600)
    trashed = [TrashedSession(session_id="t", trashed_at=NOW - 30 * DAY_S)]
    assert plan_retention(entries, Retention(), now=NOW, trashed=trashed).purged == trashed
    plan = plan_retention(entries, Retention(), now=NOW + years * 365 * DAY_S, trashed=trashed)
    assert (plan.removed, plan.purged) == ((), ())
    assert "the clock may be wrong" in plan.refusal
    assert {one.guard for one in plan.delayed} <= {plan.refusal}


@given(
    ages=st.lists(st.floats(-3, 900), max_size=80),
    jump=st.floats(-4000, 4000),
    age=st.none() | st.floats(0, 100),
    cap=st.none() | st.integers(0, 60),
    newest=st.integers(0, 30),
)
def test_whatever_the_clock_and_the_rules_the_guards_hold(ages, jump, age, cap, newest):
    retention = Retention(max_age_days=age, max_sessions=cap, keep_newest=newest)
    entries, now = aged(*ages), NOW + jump * DAY_S
    plan = plan_retention(entries, retention, now=now)
    gone, delayed = names(plan), [one.entry.session_id for one in plan.delayed]
    assert len(gone) <= max(1, len(entries) // 10)
    assert len({*gone, *delayed}) == len(gone) + len(delayed)
    stay = sorted(entries, key=lambda one: (one.updated_at, one.session_id))[len(entries) - newest :] if newest else []
    assert not set(gone) & {one.session_id for one in stay[-newest:]} or newest == 0
    if entries and not -1 <= (now - max(one.updated_at for one in entries)) / DAY_S <= 365:
        assert not gone
    due = {
        one.session_id
        for at, one in enumerate(sorted(entries, key=lambda one: (one.updated_at, one.session_id)))
        if (age is not None and (now - one.updated_at) / DAY_S > age) or (cap is not None and len(entries) - at > cap)
    }
    assert {*gone, *delayed} == due


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "loud"}, {"max_age_days": -1}, {"max_age_days": float("nan")}, {"max_sessions": -1}, {"max_sessions": 1.5},
        {"max_ratio": 0}, {"max_ratio": 1.1}, {"keep_newest": True}, {"trash_days": None}, {"keep_backups": -1},
    ],
)  # fmt: skip
def test_a_rule_that_cannot_work_is_refused_by_name(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Retention(**wrong)


# Carried out on stores


class OffloadStore:
    def __init__(self):
        self.deleted = []
        self.fails = False

    async def delete(self, session_id):
        if self.fails:
            raise StoreWriteError("read-only")
        self.deleted.append(session_id)


@pytest.fixture(params=["memory", "sqlite", "transcript"])
def made(request, tmp_path):
    clock = Clock(NOW)
    kinds = {
        "memory": lambda: MemorySessionStore(clock=clock),
        "sqlite": lambda: SqliteSessionStore(tmp_path / "s.db", clock=clock),
        "transcript": lambda: TranscriptSessionStore(tmp_path, clock=clock),
    }
    store = kinds[request.param]()
    yield store, clock
    asyncio.run(store.aclose())


async def fill(store, clock, *ages):
    for at, age in enumerate(ages):
        clock.now = NOW - age * DAY_S
        await store.save(f"s{at}", state(*talk(1)))
    clock.now = NOW


async def alive(store):
    return {row.session_id async for row in store.list()}


RULES = Retention(mode="enforce", keep_newest=2, max_ratio=1.0)


@pytest.mark.asyncio
@pytest.mark.row("O2")
async def test_warn_says_what_enforce_does_and_changes_nothing(made):
    store, clock = made
    await fill(store, clock, 1, 2, 31, 40)
    warned = await maintain(store, Retention(keep_newest=2, max_ratio=1.0), clock=clock)
    assert await alive(store) == {"s0", "s1", "s2", "s3"}
    done = await maintain(store, RULES, clock=clock)
    assert (warned.mode, done.mode) == ("warn", "enforce")
    assert (
        warned.removed
        == done.removed
        == {
            "s3": "saved last 40 days ago, and 30 are kept",
            "s2": "saved last 31 days ago, and 30 are kept",
        }
    )
    assert await alive(store) == {"s0", "s1"}
    assert json.loads(json.dumps(done.to_json())) == {"mode": "enforce", "removed": dict(done.removed), "delayed": {}}


@pytest.mark.asyncio
async def test_what_went_stays_in_the_trash_for_seven_days_and_then_its_offloaded_content_goes_with_it(made):
    store, clock = made
    offloaded = OffloadStore()
    await fill(store, clock, 1, 2, 31, 40)
    await maintain(store, RULES, also=offloaded, clock=clock)
    clock.now += 6.9 * DAY_S
    report = await maintain(store, RULES, also=offloaded, clock=clock)
    assert (list(report.purged), offloaded.deleted) == ([], [])
    assert await store.untrash("s2")
    await store.save("s2", state(*talk(1)))
    clock.now += 0.2 * DAY_S
    report = await maintain(store, RULES, also=offloaded, clock=clock)
    assert (list(report.purged), offloaded.deleted) == (["s3"], ["s3"])
    assert [one async for one in store.trashed()] == []
    assert await alive(store) == {"s0", "s1", "s2"}


@pytest.mark.asyncio
async def test_a_session_that_lives_again_keeps_its_offloaded_content(made):
    store, clock = made
    offloaded = OffloadStore()
    await fill(store, clock, 1, 2, 40)
    await maintain(store, RULES, clock=clock)
    await store.save("s2", state(*talk(2)))
    clock.now += 8 * DAY_S
    report = await maintain(store, RULES, also=offloaded, clock=clock)
    assert (list(report.purged), offloaded.deleted) == (["s2"], [])
    assert (await store.load("s2")).state == state(*talk(2))


@pytest.mark.asyncio
async def test_a_session_that_is_open_again_and_not_saved_yet_keeps_its_offloaded_content(made):
    store, clock = made
    offloaded = OffloadStore()
    await fill(store, clock, 1, 2, 40)
    await maintain(store, RULES, clock=clock)
    clock.now += 8 * DAY_S
    report = await maintain(store, RULES, in_use=["s2"], also=offloaded, clock=clock)
    assert (list(report.purged), offloaded.deleted) == (["s2"], [])


@pytest.mark.asyncio
async def test_a_session_that_somebody_holds_is_not_removed_for_good(made):
    store, clock = made
    offloaded = OffloadStore()
    await fill(store, clock, 1, 2, 40)
    await maintain(store, RULES, clock=clock)
    clock.now += 8 * DAY_S
    async with SessionLocks() as locks, locks.hold("s2", owner=object(), path=store.lock_path("s2")):
        report = await maintain(store, RULES, also=offloaded, clock=clock)
    assert (list(report.purged), offloaded.deleted) == ([], [])
    report = await maintain(store, RULES, also=offloaded, clock=clock)
    assert (list(report.purged), offloaded.deleted) == (["s2"], ["s2"])


@pytest.mark.asyncio
async def test_what_cannot_be_removed_for_good_is_tried_again(made):
    store, clock = made
    offloaded = OffloadStore()
    await fill(store, clock, 1, 2, 40)
    await maintain(store, RULES, clock=clock)
    clock.now += 8 * DAY_S
    offloaded.fails = True
    assert list((await maintain(store, RULES, also=offloaded, clock=clock)).purged) == []
    offloaded.fails = False
    assert list((await maintain(store, RULES, also=offloaded, clock=clock)).purged) == ["s2"]


@pytest.mark.asyncio
@pytest.mark.parametrize("years", [10, -10])
async def test_a_jump_of_the_clock_by_ten_years_removes_nothing(made, years):
    store, clock = made
    await fill(store, clock, *[1] * 25, 29, 40)
    await maintain(store, Retention(mode="enforce"), clock=clock)
    before = await alive(store)
    assert len(before) == 26
    clock.now += years * 365 * DAY_S
    for _ in range(3):
        report = await maintain(store, Retention(mode="enforce"), clock=clock)
        assert (report.removed, list(report.purged)) == ({}, [])
    assert await alive(store) == before
    assert len([one async for one in store.trashed()]) == 1


@pytest.mark.asyncio
async def test_a_session_that_is_saved_while_the_pass_runs_stays_and_is_named(made):
    store, clock = made
    await fill(store, clock, 1, 2, 40)
    trash = store.trash

    async def save_first(session_id, *, saved_at=None):
        await store.save(session_id, state(*talk(2)))
        return await trash(session_id, saved_at=saved_at)

    store.trash = save_first
    report = await maintain(store, RULES, clock=clock)
    assert report.removed == {}
    assert report.delayed["s2"].endswith("it was saved or removed meanwhile")
    assert (await store.load("s2")).state == state(*talk(2))


class Bare:
    """A session store of somebody else, with the contract's methods alone."""

    def __init__(self, inner):
        self.save, self.load, self.list, self.fence = inner.save, inner.load, inner.list, inner.fence
        self.delete, self.lock_path, self.aclose = inner.delete, inner.lock_path, inner.aclose


@pytest.mark.asyncio
async def test_a_store_without_a_trash_loses_at_once_what_goes_and_its_offloaded_content():
    clock, offloaded = Clock(NOW), OffloadStore()
    store = Bare(MemorySessionStore(clock=clock))
    await fill(store, clock, 1, 2, 40)
    offloaded.fails = True
    report = await maintain(store, RULES, also=offloaded, clock=clock)
    assert report.delayed["s2"].endswith("read-only")
    assert await alive(store) == {"s0", "s1", "s2"}
    offloaded.fails = False
    await maintain(store, RULES, also=offloaded, clock=clock)
    assert (await alive(store), offloaded.deleted) == ({"s0", "s1"}, ["s2"])


@pytest.mark.asyncio
@pytest.mark.row("O2")
async def test_an_index_over_its_limit_is_rotated_by_the_pass(tmp_path):
    clock = Clock(NOW)
    store = TranscriptSessionStore(tmp_path, clock=clock)
    await fill(store, clock, 1, 2, 3)
    rules = Retention(mode="enforce", rotate_index_bytes=100)
    assert (await maintain(store, rules, clock=clock)).is_rotated
    assert not (await maintain(store, Retention(mode="enforce"), clock=clock)).is_rotated
    assert not (await maintain(store, Retention(rotate_index_bytes=100), clock=clock)).is_rotated
    assert [path.name for path in tmp_path.rglob("*.bak.*")] == ["sessions.json.bak.1700000000000"]
    await store.aclose()
