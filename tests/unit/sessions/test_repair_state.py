"""Saved states whose context has parts that are none, or pairs that are broken."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from ctxkit.sessions.repair import repair_state
from tests.unit.fakes import FakeCodec, agent, call, result, step, user

CODEC = FakeCodec()


def state_of(*messages, **more) -> dict:
    context = [
        message if not hasattr(message, "role") else json.loads(json.dumps(asdict(message))) for message in messages
    ]
    return {"session_id": "s", "context": context, "reply_context": {"reply_id": "reply"}, **more}


def types(state) -> list[list[str]]:
    return [[block["type"] for block in message["content"]] for message in state["context"]]


def test_a_state_without_defects_comes_back_as_the_very_same_object():
    state = state_of(user("do"), agent(*step("a"), "done"))

    outcome = repair_state(state, CODEC)

    assert outcome.state is state
    assert outcome.repairs == ()


@pytest.mark.row("O15")
def test_the_pairs_of_a_state_are_repaired_and_sound_messages_stay_as_they_were_saved():
    state = state_of(user("do"), agent(call("a")), user("x"), agent(result("b"), "so"), other=1)

    outcome = repair_state(state, CODEC)

    assert types(outcome.state) == [["text"], ["tool_call", "tool_result"], ["text"], ["text"]]
    assert outcome.state["context"][0] is state["context"][0]
    assert outcome.state["other"] == 1
    assert [[b["id"] for b in message["content"]] for message in outcome.dropped] == [["b"]]
    assert "tool_result" not in types(state)[1]


def test_a_parked_reply_is_known_by_the_id_that_any_version_saved():
    for reply in ({"reply_context": {"reply_id": "reply"}}, {"reply_id": "reply"}, {"reply_context": 7}, {}):
        state = {**state_of(agent("one", reply_id="reply"), user("x"), agent("two", reply_id="reply"))}
        state.pop("reply_context")
        ids = [message["id"] for message in repair_state({**state, **reply}, CODEC).state["context"]]
        expected = "reply" if "reply" in str(reply) and reply != {"reply_context": 7} else "reply-2"
        assert ids[2] == expected


@pytest.mark.row("O15")
@pytest.mark.parametrize("broken", [{"id": None}, {"name": None}, {"input": None}, {"id": 3}])
def test_a_call_that_lacks_something_is_dropped_with_its_result(broken, monkeypatch):
    monkeypatch.setattr(FakeCodec, "load", strict_load)
    state = state_of(user("do"), agent("I look", call("a"), result("a")), user("x"), agent(call("a"), result("a")))
    state["context"][1]["content"][1] |= broken

    outcome = repair_state(state, CODEC)

    assert types(outcome.state)[1] == ["text"]
    assert types(outcome.state)[3] == ["tool_call", "tool_result"]
    assert [repair.kind for repair in outcome.repairs][:1] == ["incomplete_call"]
    assert {"broken": state["context"][1]["content"][1]} in outcome.dropped
    assert len(outcome.repairs) == 2


def strict_load(self, line):
    """Refuse calls as AgentScope does, whose fields are all strings."""
    for block in json.loads(line)["content"]:
        if block["type"] == "tool_call" and not all(isinstance(block.get(key), str) for key in ("id", "name", "input")):
            msg = "a field of a call is no string"
            raise ValueError(msg)
    return LOAD(self, line)


LOAD = FakeCodec.load


@pytest.mark.parametrize(
    "junk", [None, 7, "text", [], {}, {"role": "robot", "content": []}, {"content": [], "id": "m"}]
)
def test_what_is_no_message_is_dropped_and_handed_out_as_it_is(junk):
    outcome = repair_state(state_of(user("do"), junk), CODEC)

    assert types(outcome.state) == [["text"]]
    assert outcome.dropped == [{"broken": junk}]
    assert [repair.kind for repair in outcome.repairs] == ["broken_message"]


def test_a_block_that_cannot_be_read_leaves_its_message():
    state = state_of(agent("so", "then"))
    state["context"][0]["content"] += [{"type": "hologram"}, 7]

    outcome = repair_state(state, CODEC)

    assert types(outcome.state) == [["text", "text"]]
    assert outcome.dropped == [{"broken": {"type": "hologram"}}, {"broken": 7}]


def test_a_message_of_plain_text_becomes_one_of_blocks():
    state = {"context": [{"role": "user", "content": "do"}]}

    outcome = repair_state(state, CODEC)

    assert [block["text"] for block in outcome.state["context"][0]["content"]] == ["do"]
    assert [repair.kind for repair in outcome.repairs] == ["broken_message"]


def test_a_context_that_is_no_list_is_handed_out():
    outcome = repair_state({"context": {"a": 1}, "session_id": "s"}, CODEC)

    assert outcome.state == {"context": [], "session_id": "s"}
    assert outcome.dropped == [{"broken": {"a": 1}}]


def test_a_state_without_a_context_is_left_alone():
    state = {"session_id": "s"}
    assert repair_state(state, CODEC).state is state
