"""The suite for stores finds each store that breaks a promise, by the test that is named for it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from ctxkit.errors import StoreError
from ctxkit.sessions import MemorySessionStore
from ctxkit.testing import SessionStoreSuite, StoreSuite

from . import broken

FOUND_BY = {
    broken.LosesTheLastRecord: "records_come_back_whole_and_in_order",
    broken.StoresARepetition: "the_same_key_is_stored_once",
    broken.KeepsOneBodyAnId: "the_same_id_with_other_content_is_another_record",
    broken.StoresACallInParts: "a_call_is_stored_whole_or_not_at_all",
    broken.SwallowsErrors: "what_is_no_record_is_refused",
    broken.RaisesWhatItLikes: "what_is_no_reference_is_not_found",
    broken.SortsRecords: "records_come_back_whole_and_in_order",
    broken.CountsFromZero: "sequences_count_from_one_without_gaps",
    broken.ListsFromAfterOn: "the_list_begins_after_a_sequence",
    broken.FoldsCase: "any_text_is_a_session_of_its_own",
    broken.CutsLongIds: "any_text_is_a_session_of_its_own",
    broken.WritesOutside: "any_text_is_a_session_of_its_own",
    broken.OverwritesBlobs: "other_content_under_the_same_name_leaves_the_first_alone",
    broken.LooksThenWrites: "the_same_call_from_many_tasks_is_stored_once",
    broken.AnswersTheWrongTask: "each_task_gets_its_own_answer",
    broken.GoesOnWhenCancelled: "a_cancelled_append_that_is_repeated_is_stored_once",
    broken.LeavesAHalfWhenCancelled: "a_cancelled_put_that_is_repeated_is_stored_once",
    broken.RepeatsWhenCancelled: "a_cancelled_append_that_is_repeated_is_stored_once",
    broken.FailsOnSurrogates: "any_text_comes_back",
    broken.LosesSurrogates: "any_text_comes_back",
    broken.ForeseesWrongly: "references_are_known_beforehand",
    broken.CountsFromTheEnd: "a_negative_range_never_counts_from_the_end",
    broken.ListsTheNewestBlobFirst: "blobs_are_listed_behind_the_records_oldest_first",
    broken.TakesAnyName: "names_that_are_none_are_refused",
    broken.Hangs: "records_come_back_whole_and_in_order",
    broken.KeepsKeysOfTheDeleted: "a_deleted_session_is_empty_and_begins_anew",
    broken.DeletesByPrefix: "deleting_any_session_leaves_the_others",
    broken.StoresChunksAsTheyCome: "chunks_that_break_off_leave_nothing",
    broken.SearchesOldestFirst: "search_finds_records_newest_first_then_blobs",
    broken.SearchesByPattern: "search_takes_a_text_literally",
    broken.FencesAppendOnly: "an_owner_writes_until_a_higher_epoch_is_fenced",
    broken.LowersFences: "a_fence_is_never_lowered",
    broken.ForgetsFences: "a_fence_outlives_the_session",
    broken.FencesAllSessions: "a_fence_holds_for_its_session_only",
    broken.HasTwoOwners: "a_session_has_one_owner_and_the_error_names_it",
    broken.HidesItsOwner: "a_session_has_one_owner_and_the_error_names_it",
    broken.RepeatsEpochs: "each_owner_has_a_higher_epoch",
    broken.NeverExpires: "an_expired_owner_knows_that_it_lost_the_session",
    broken.RemembersItsList: "what_one_client_was_told_is_seen_by_another",
    broken.AnswersBeforeItWrites: "what_a_killed_process_was_told_is_there_once_whole_and_in_order",
}

FAILURES = (AssertionError, pytest.fail.Exception, StoreError, UnicodeError)
"""What pytest shows as a failure: a promise that is not kept, or what the store itself raises on good content."""


class BrokenSuite(StoreSuite):
    """Opens one of the broken stores."""

    timeout_s = 5.0
    kind = broken.Hangs

    def open_store(self, place):
        if issubclass(self.kind, broken.FileStore | broken.AbleStore):
            return self.kind(place)
        store = self.kind()
        store.place = place
        return store


class AnswersEarlySuite(BrokenSuite):
    """The one that other processes import."""

    timeout_s = 60.0
    kind = broken.AnswersBeforeItWrites


def suite_of(kind):
    if kind is AnswersEarlySuite.kind:
        return AnswersEarlySuite()
    return type(
        f"Suite{kind.__name__}", (BrokenSuite,), {"kind": kind, "timeout_s": 1.0 if kind is broken.Hangs else 5.0}
    )()


@pytest.mark.row("X15")
@pytest.mark.parametrize("kind", FOUND_BY, ids=lambda kind: kind.__name__)
def test_a_store_that_breaks_a_promise_is_found(kind, tmp_path):
    test = getattr(suite_of(kind), f"test_{FOUND_BY[kind]}")
    with pytest.raises(FAILURES) as caught:
        test(tmp_path)
    assert str(caught.value).strip(), "a failure says what was promised"


@pytest.mark.row("X15")
def test_a_store_that_goes_on_as_if_nothing_had_failed_is_found(tmp_path):
    switch = {"is_off": False}

    class TakesAFailureForSuccess(broken.MemoryStore):
        async def append(self, session_id, records):
            return self.reference(session_id) if switch["is_off"] else await super().append(session_id, records)

    class Suite(StoreSuite):
        durable = False

        def open_store(self, place):
            return TakesAFailureForSuccess()

        def outages(self, place):
            @contextlib.contextmanager
            def off():
                switch["is_off"] = True
                yield
                switch["is_off"] = False

            return [("the store is off", off())]

    with pytest.raises(AssertionError, match="what was acknowledged is not listed"):
        Suite().test_a_back_end_that_fails_costs_no_record_and_comes_back(tmp_path)


class LetsAnyoneSave(MemorySessionStore):
    async def save(self, session_id, state, *, entry=None, epoch=None):
        await super().save(session_id, state, entry=entry)


class FoldsCase(MemorySessionStore):
    async def save(self, session_id, state, *, entry=None, epoch=None):
        await super().save(session_id.casefold(), state, entry=entry, epoch=epoch)

    async def load(self, session_id):
        return await super().load(session_id.casefold())


class GoesOnWhenCancelled(MemorySessionStore):
    async def save(self, session_id, state, *, entry=None, epoch=None):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        await super().save(session_id, state, entry=entry, epoch=epoch)


class KeepsTheFirst(MemorySessionStore):
    async def save(self, session_id, state, *, entry=None, epoch=None):
        if await self.load(session_id) is None:
            await super().save(session_id, state, entry=entry, epoch=epoch)


@pytest.mark.row("X15")
@pytest.mark.parametrize(
    ("kind", "found_by"),
    [
        (LetsAnyoneSave, "an_owner_saves_until_a_higher_epoch_is_used"),
        (FoldsCase, "any_text_is_a_session_of_its_own"),
        (GoesOnWhenCancelled, "a_cancelled_save_leaves_the_old_state_or_the_new_one"),
        (KeepsTheFirst, "a_state_comes_back_as_it_was_saved"),
    ],
)
def test_a_session_store_that_breaks_a_promise_is_found(kind, found_by, tmp_path):
    class Suite(SessionStoreSuite):
        durable = False

        def open_store(self, place):
            return kind()

    with pytest.raises(FAILURES):
        getattr(Suite(), f"test_{found_by}")(tmp_path)
