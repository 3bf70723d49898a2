"""Where a request has the summary layer."""

from __future__ import annotations

from ctxkit.engine.placement import in_first_user_message
from tests.unit.fakes import FakeCodec, FakeMsg, agent, text, user

SYSTEM = FakeMsg(role="system", name="system", content=[text("be kind")], id="sys")


def said(messages: object) -> list[tuple[str, list[str]]]:
    return [(message.role, [block.text for block in message.content]) for message in messages]  # type: ignore[attr-defined]


def test_the_layer_stands_before_the_first_users_words_and_no_message_is_changed():
    layer, first = user("the summary"), user("ask")
    request = [SYSTEM, layer, agent("hello"), first, agent("so")]
    placed = in_first_user_message(request, FakeCodec())
    assert said(placed) == [
        ("system", ["be kind"]),
        ("assistant", ["hello"]),
        ("user", ["the summary", "ask"]),
        ("assistant", ["so"]),
    ]
    assert placed[2].id == first.id
    assert said([first]) == [("user", ["ask"])]


def test_where_no_user_speaks_behind_it_the_layer_stays_a_message():
    request = [SYSTEM, user("the summary"), agent("hello")]
    assert in_first_user_message(request, FakeCodec()) is request
    assert in_first_user_message([], FakeCodec()) == []
