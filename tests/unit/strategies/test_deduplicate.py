"""What a later call makes needless."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ctxkit.plan import REFERENCE, Edit, EditKind
from ctxkit.strategies import DeduplicateStrategy
from tests.unit.fakes import FakeBlock, FakeMsg, agent, call, image, result, situation, text, user

LONG = "line of a report\n" * 40
PAGE = "\n".join(f"{n}\tline {n} of the file" for n in range(1, 41))
PART = "\n".join(f"{n}\tline {n} of the file" for n in range(10, 30))


def exchange(call_id: str, output: str, tool: str = "Read", **arguments: object) -> list[FakeBlock]:
    return [call(call_id, tool, **arguments), result(call_id, output, tool)]


def edits_of(*blocks: Sequence[FakeBlock], **known: object) -> tuple[Edit, ...]:
    return planned(agent(*(block for some in blocks for block in some)), user("do"), **known)


def planned(*messages: FakeMsg, **known: object) -> tuple[Edit, ...]:
    here = situation(*messages, context_size=100_000)
    return DeduplicateStrategy().plan_edits(type(here)(**{**vars(here), **known}))


def cleared(edits: Sequence[Edit]) -> list[int]:
    return [edit.start for edit in edits]


def test_of_equal_results_of_a_tool_only_the_newest_stays():
    same = [exchange(f"c{n}", LONG, "fetch", topic=f"t{n}") for n in range(3)]
    edits = edits_of(*same)
    assert cleared(edits) == [1, 3]
    assert {edit.kind for edit in edits} == {EditKind.CLEAR}
    assert {edit.rule for edit in edits} == {"deduplicate"}
    assert "later fetch(t2)" in (edits[0].text or "")


def test_the_line_names_both_calls_and_the_place_of_the_original():
    (edit,) = edits_of(exchange("a", LONG, "fetch", topic="north"), exchange("b", LONG, "fetch", topic="south"))
    assert edit.text == (
        "[Cleared to save room: the result of fetch(north), which came again, word for word, from a later fetch(south). "
        f"Original: {REFERENCE}]"
    )


@pytest.mark.parametrize(
    "other",
    [
        exchange("b", LONG, "search", topic="a"),
        exchange("b", LONG + "!", "fetch", topic="a"),
        [call("b", "fetch", topic="a")],
    ],
    ids=["of another tool", "with another text", "without a result"],
)
def test_what_did_not_come_again_stays(other: list[FakeBlock]):
    assert edits_of(exchange("a", LONG, "fetch", topic="a"), other) == ()


def test_short_results_stay_and_so_do_those_with_images():
    assert edits_of(exchange("a", "done"), exchange("b", "done")) == ()
    pictured = [[call(i, "shot"), result(i, [text(LONG), image()], "shot")] for i in "ab"]
    assert edits_of(*pictured) == ()


def test_a_read_stays_only_until_the_same_lines_are_read_again():
    read = {"file_path": "/a.py", "offset": 10}
    edits = edits_of(exchange("a", PART, **read), exchange("b", PART + "\nchanged", **read))
    assert cleared(edits) == [1]
    assert "has read again" in (edits[0].text or "")


def test_a_part_of_a_file_leaves_when_the_whole_of_it_was_read_later():
    assert cleared(
        edits_of(exchange("a", PART, file_path="/a.py", offset=10), exchange("b", PAGE, file_path="/a.py"))
    ) == [1]


@pytest.mark.parametrize(
    "later",
    [
        exchange("b", PAGE, file_path="/b.py"),
        exchange("b", PAGE.replace("line 29", "another"), file_path="/a.py"),
        exchange("b", PAGE, file_path="/a.py", offset=1),
    ],
    ids=["another file", "not these lines", "another part"],
)
def test_a_part_of_a_file_stays_where_later_reads_do_not_hold_it(later: list[FakeBlock]):
    assert edits_of(exchange("a", PART, file_path="/a.py", offset=10), later) == ()


def test_a_whole_read_stays_when_only_a_part_was_read_later():
    assert edits_of(exchange("a", PAGE, file_path="/a.py"), exchange("b", PART, file_path="/a.py", offset=10)) == ()


def test_a_read_stays_where_the_later_one_failed_or_was_cut():
    for state, mark in (("error", {}), ("success", {"ctxkit": {"shortened": True}})):
        later = result("b", "no such file", "Read")
        later.state, later.metadata = state, mark
        assert edits_of(exchange("a", PAGE, file_path="/a.py"), [call("b", "Read", file_path="/a.py"), later]) == ()


def test_a_read_leaves_when_the_file_was_written_anew_and_stays_when_it_was_edited():
    written = exchange("b", "done", "Write", file_path="/a.py", content="x")
    edited = exchange("b", "done", "Edit", file_path="/a.py", old_string="x", new_string="y")
    assert cleared(edits_of(exchange("a", PAGE, file_path="/a.py"), written)) == [1]
    assert edits_of(exchange("a", PAGE, file_path="/a.py"), edited) == ()


def test_another_question_to_the_same_folder_makes_no_answer_needless():
    assert (
        edits_of(
            exchange("a", LONG, "Grep", pattern="one", path="/src"),
            exchange("b", PAGE, "Grep", pattern="two", path="/src"),
        )
        == ()
    )


def test_open_errors_and_pinned_messages_stay_and_vouch_for_nothing():
    first, second = exchange("a", LONG, "fetch"), exchange("b", LONG, "fetch")
    assert edits_of(first, second, open_errors=frozenset({"a"})) == ()
    assert planned(agent(*first), agent(*second), user("do"), pinned=frozenset({0})) == ()


def test_what_was_cleared_is_not_cleared_again():
    first = exchange("a", LONG, "fetch")
    first[1].metadata = {"ctxkit": {"cleared": True}}
    assert edits_of(first, exchange("b", LONG, "fetch")) == ()
