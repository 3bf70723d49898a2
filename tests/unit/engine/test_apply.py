"""What a context looks like after edits, and what is to be stored before them."""

from __future__ import annotations

from copy import deepcopy

from ctxkit.engine.apply import apply_edits, taken_away
from ctxkit.plan import Edit, EditKind
from ctxkit.view import Place, View
from tests.unit.fakes import FakeCodec, agent, result, step, text, user

CODEC = FakeCodec()


def leave(message: int, start: int, stop: int) -> Edit:
    return Edit(kind=EditKind.COMPRESS, message=message, message_id="m", start=start, stop=stop, tokens=1)


def test_untouched_messages_are_the_very_same_objects_in_a_new_list():
    messages = [user("a"), agent("b")]
    context = apply_edits(View(messages), (), {}, CODEC)
    assert context is not messages
    assert [id(message) for message in context] == [id(message) for message in messages]


def test_what_leaves_is_taken_out_and_the_view_keeps_its_messages_as_they_were():
    messages = [user("old"), user("do"), agent(*step("a"), *step("b"))]
    before = deepcopy(messages)
    context = apply_edits(View(messages), [leave(0, 0, 1), leave(2, 0, 3)], {}, CODEC)
    assert messages == before
    assert context[0] is messages[1]
    assert (context[1].id, context[1].content) == (messages[2].id, messages[2].content[3:])
    assert "ctxkit" not in context[1].metadata


def test_a_shortened_block_stands_in_the_place_of_the_original_and_its_message_is_marked():
    message = agent(*step("a", "long"), "done")
    short = result("a", "lo")
    [after] = apply_edits(View([message]), (), {Place(0, 2): short}, CODEC)
    assert after.content == [*message.content[:2], short, message.content[3]]
    assert after.metadata == {"ctxkit": {"shortened": True}}
    assert message.metadata == {}


def test_blocks_that_came_after_the_view_are_not_taken_for_seen():
    message = agent("a", "b")
    view = View([message])
    message.content.append(text("new"))
    [after] = apply_edits(view, [leave(0, 0, 1)], {}, CODEC)
    assert [block.text for block in after.content] == ["b"]


def test_an_empty_message_leaves_where_an_edit_names_it_and_stays_elsewhere():
    messages = [agent("old"), agent(), user("do"), agent()]
    context = apply_edits(View(messages), [leave(0, 0, 1), leave(1, 0, 0)], {}, CODEC)
    assert context == messages[2:]


class TestTakenAway:
    def test_whole_messages_are_stored_as_they_are_and_parts_as_copies_with_the_same_id(self):
        messages = [user("old"), agent(*step("a"), "more")]
        whole, part = taken_away(View(messages), [leave(0, 0, 1), leave(1, 0, 3)], CODEC)
        assert whole is messages[0]
        assert (part.id, part.content) == (messages[1].id, messages[1].content[:3])

    def test_a_message_that_grew_is_stored_as_it_was_seen(self):
        message = agent("a")
        view = View([message])
        message.content.append(text("new"))
        [part] = taken_away(view, [leave(0, 0, 1)], CODEC)
        assert [block.text for block in part.content] == ["a"]

    def test_nothing_is_stored_of_an_empty_message_or_of_a_block_that_is_shortened(self):
        shorten = Edit(kind=EditKind.TRUNCATE, message=1, message_id="m", start=0, stop=1, tokens=9, keep_tokens=1)
        assert taken_away(View([agent(), agent("long")]), [leave(0, 0, 0), shorten], CODEC) == []
