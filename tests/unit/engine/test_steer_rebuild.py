"""The context of before a compression, put together from what stands there and what was stored."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ctxkit.engine.steer.rebuild import CannotJoinError, rebuild
from ctxkit.offload.changes import Part, Seen, StoredChange, block_name
from ctxkit.plan import Edit, EditKind, Reason
from ctxkit.port import Usage
from ctxkit.view import View
from tests.unit.fakes import FakeCodec, agent, call, result, text, user

CODEC = FakeCodec()
ASKED, SAID, NEWEST = user("Why?"), agent(text("one"), text("two"), text("three")), user("And now?")


def part(kind, index, message, blocks, key):
    start, stop = blocks
    named = tuple(block_name(block.type, block.id) for block in message.content[start:stop])
    edit = Edit(kind=kind, message=index, message_id=message.id, start=start, stop=stop, tokens=1)
    return Part(edit=edit, key=key, blocks=named)


def change(*parts, stays=(True, True, True)):
    messages = (ASKED, SAID, NEWEST)
    seen = tuple(Seen(id=m.id, blocks=len(m.content), stays=s) for m, s in zip(messages, stays, strict=True))
    return StoredChange(plan_id="p", reason=Reason.MANUAL, previous=None, messages=seen, parts=tuple(parts))


def test_messages_that_left_whole_and_in_part_stand_where_they_stood():
    gone = change(
        part(EditKind.COMPRESS, 0, ASKED, (0, 1), "a"),
        part(EditKind.COMPRESS, 1, SAID, (0, 2), "b"),
        stays=(False, True, True),
    )
    originals = {"a": ASKED, "b": CODEC.with_content(SAID, SAID.content[:2])}
    left = CODEC.with_content(SAID, SAID.content[2:])
    assert rebuild(gone, originals, View([left, NEWEST]), CODEC) == [ASKED, SAID, NEWEST]


def test_a_shortened_block_is_whole_again_and_its_message_loses_the_mark():
    short = change(part(EditKind.TRUNCATE, 1, SAID, (1, 2), "b"))
    now = CODEC.with_content(
        SAID, [SAID.content[0], CODEC.with_text(SAID.content[1], "t"), SAID.content[2]], mark={"shortened": True}
    )
    originals = {"b": CODEC.with_content(SAID, SAID.content[1:2])}
    assert rebuild(short, originals, View([ASKED, now, NEWEST]), CODEC) == [ASKED, SAID, NEWEST]


def test_what_came_since_stays_behind_it_in_the_last_message_and_after_it():
    gone = change(part(EditKind.DROP, 0, ASKED, (0, 1), "a"), stays=(False, True, True))
    grown, later = CODEC.with_content(NEWEST, [*NEWEST.content, text("more")]), agent(call("c"), result("c"))
    back = rebuild(gone, {"a": ASKED}, View([SAID, grown, later]), CODEC)
    assert back == [ASKED, SAID, grown, later]


def test_a_running_message_that_left_and_was_begun_anew_is_one_again():
    gone = change(part(EditKind.DROP, 2, NEWEST, (0, 1), "c"), stays=(True, True, False))
    anew = CODEC.with_content(NEWEST, [text("more")])
    back = rebuild(gone, {"c": NEWEST}, View([ASKED, SAID, anew]), CODEC)
    assert [[block.text for block in message.content] for message in back][2] == ["And now?", "more"]


@pytest.mark.parametrize(
    ("now", "why"),
    [
        ([NEWEST], "not where the compression left it"),
        ([SAID], "not where the compression left it"),
        ([CODEC.with_content(SAID, SAID.content[:1]), NEWEST], "has 1 blocks"),
        ([CODEC.with_content(SAID, [*SAID.content, text("!")]), NEWEST], "has 4 blocks"),
    ],
    ids=["a message is gone", "the last one is gone", "a block is gone", "a block came in between"],
)
def test_a_context_that_was_changed_otherwise_is_never_joined(now, why):
    gone = change(part(EditKind.DROP, 0, ASKED, (0, 1), "a"), stays=(False, True, True))
    with pytest.raises(CannotJoinError, match=why):
        rebuild(gone, {"a": ASKED}, View(now), CODEC)


def test_a_block_that_somebody_replaced_is_never_overwritten():
    short = change(part(EditKind.CLEAR, 1, SAID, (1, 2), "b"))
    now = CODEC.with_content(SAID, [SAID.content[0], text("another"), SAID.content[2]])
    with pytest.raises(CannotJoinError, match="replaced since"):
        rebuild(short, {"b": CODEC.with_content(SAID, SAID.content[1:2])}, View([ASKED, now, NEWEST]), CODEC)


def test_a_change_is_the_same_when_it_is_read_back():
    made = change(part(EditKind.DROP, 0, ASKED, (0, 1), "a"))
    assert StoredChange.from_json(json.loads(made.record().body)) == made


def test_the_empty_message_that_holds_what_a_summary_cost_goes_and_the_last_message_holds_it():
    gone = change(
        *(part(EditKind.COMPRESS, n, m, (0, len(m.content)), str(n)) for n, m in enumerate((ASKED, SAID, NEWEST))),
        stays=(False, False, False),
    )
    originals = {"0": ASKED, "1": SAID, "2": replace(NEWEST, usage=Usage(input_tokens=1, output_tokens=1))}
    cost, later = replace(agent(), usage=Usage(input_tokens=10, output_tokens=5)), user("Well?")
    *before, newest, since = rebuild(gone, originals, View([cost, later]), CODEC)
    assert (before, since) == ([ASKED, SAID], later)
    assert newest == replace(NEWEST, usage=Usage(input_tokens=11, output_tokens=6))
