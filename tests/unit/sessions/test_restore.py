"""The rule `texts`: the newest turns, with what was said in them and nothing else, and all that goes is handed back."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.sessions import newest_turns

from .states import call, message, result, state, talk, text


def said(kept):
    return [(one["role"], [block["text"] for block in one["content"]]) for one in kept.state["context"]]


@pytest.mark.row("C8")
@pytest.mark.parametrize(("max_turns", "turns"), [(1, 3), (18, 3), (20, 3), (24, 4), (60, 10)])
def test_a_sixth_of_the_turns_is_restored_and_at_least_three(max_turns, turns):
    kept = newest_turns(state(*talk(12)), max_turns=max_turns)
    assert kept.state["context"] == talk(12)[-2 * turns :]
    assert kept.turns == turns
    assert kept.dropped == talk(12)[: -2 * turns]


@pytest.mark.row("C8")
def test_a_turn_keeps_the_users_text_and_the_final_reply():
    answer = message(
        "a",
        "assistant",
        {"type": "thinking", "thinking": "hm", "id": "h"},
        text("I look it up", block_id="1"),
        call(),
        result("4711"),
        {"type": "hint", "hint": "be brief", "id": "n"},
        text("It is ", block_id="2"),
        text("4711.", block_id="3"),
    )
    picture = {"type": "data", "source": {"type": "url", "url": "http://x", "media_type": "image/png"}, "id": "d"}
    asked = message("u", "user", text("What is it?"), picture)
    kept = newest_turns(state(asked, answer))
    assert said(kept) == [("user", ["What is it?"]), ("assistant", ["It is ", "4711."])]
    assert [one["id"] for one in kept.state["context"]] == ["u", "a"]
    assert kept.dropped == [asked, answer]


def test_a_reply_that_was_cut_off_behind_a_tool_keeps_its_last_text():
    kept = newest_turns(
        state(message("u", "user", "go"), message("a", "assistant", text("First I look."), call(), result("x")))
    )
    assert said(kept) == [("user", ["go"]), ("assistant", ["First I look."])]


def test_of_several_answers_in_a_turn_the_last_one_with_words_stays():
    context = [
        message("u", "user", "go"),
        message("a1", "assistant", "one moment"),
        message("a2", "assistant", "done"),
        message("a3", "assistant", call()),
    ]
    kept = newest_turns(state(*context))
    assert said(kept) == [("user", ["go"]), ("assistant", ["done"])]
    assert kept.dropped == [context[1], context[3]]


def test_user_messages_before_one_answer_are_one_turn():
    context = []
    for number in range(4):
        context += [message(f"u{number}{at}", "user", f"{number}{at}") for at in range(3)]
        context.append(message(f"a{number}", "assistant", "ok"))
    kept = newest_turns(state(*context))
    assert kept.state["context"] == context[4:]
    assert kept.turns == 3


def test_what_stands_before_the_first_turn_goes_and_an_open_request_stays():
    context = [
        message("a", "assistant", "rest of an old reply"),
        message("s", "system", "x"),
        message("u", "user", "now?"),
    ]
    kept = newest_turns(state(*context))
    assert kept.state["context"] == context[2:]
    assert kept.dropped == context[:2]


def test_the_summary_goes_unless_a_valid_one_is_given_and_all_else_stays():
    saved = state(
        *talk(5),
        summary="old",
        permission_context={"mode": "bypass"},
        tool_context={"read_file_cache": [{"file_path": "x"}], "activated_groups": ["web"]},
        tasks_context={"tasks": [{"subject": "t"}]},
        middle_context={"ctxkit": {"meter": {"version": 1}}},
    )
    before = copy.deepcopy(saved)
    kept = newest_turns(saved)
    assert (kept.state["summary"], kept.dropped_summary) == ("", "old")
    given = newest_turns(saved, summary="of what went")
    assert (given.state["summary"], given.dropped_summary) == ("of what went", "old")
    assert kept.state["tool_context"] == {"read_file_cache": [], "activated_groups": ["web"]}
    for name in ("session_id", "reply_context", "permission_context", "tasks_context", "middle_context"):
        assert kept.state[name] == saved[name]
    assert saved == before


blocks = st.sampled_from(
    [text("words"), text(""), call(), result("out"), {"type": "thinking", "thinking": "hm"}, {"type": "odd"}, None, "x"]
)
messages = st.builds(
    lambda role, content: {"id": "m", "role": role, "content": content},
    st.sampled_from(["user", "assistant", "system", None]),
    st.lists(blocks, max_size=5) | st.just("plain") | st.none(),
)


@given(context=st.lists(messages | st.none() | st.just([]), max_size=25), max_turns=st.integers(1, 60))
def test_of_any_context_only_texts_stay_and_every_message_that_changed_is_handed_back(context, max_turns):
    context = copy.deepcopy(context)
    kept = newest_turns(state(*context), max_turns=max_turns)
    for one in kept.state["context"]:
        assert one["role"] in {"user", "assistant"}
        assert one["content"]
        assert all(block["type"] == "text" and block["text"] for block in one["content"])
    untouched = [one for one in context if any(one is whole for whole in kept.state["context"])]
    assert len(untouched) + len(kept.dropped) == len(context)
    assert kept.turns <= max(3, max_turns // 6)


def test_a_state_without_a_context_has_no_turns():
    kept = newest_turns({"session_id": "s"})
    assert (kept.state, kept.turns, kept.dropped) == ({"session_id": "s", "context": [], "summary": ""}, 0, [])
