"""What a transcript has of a message that grows, shrinks and is split comes to the whole message."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.sessions.encoding import decode_state, encode_piece, encode_state
from ctxkit.sessions.transcript.history import History, merge_versions

from .states import message, result, state, talk, text


def written(versions):
    history = History()
    return [one for one in versions if history.tells_more(one, encode_piece(one))]


def merged(versions):
    whole = versions[0]
    for one in versions[1:]:
        whole = merge_versions(whole, one)
    return whole


@given(
    steps=st.lists(st.sampled_from(["grow", "add", "clear", "split", "same"]), max_size=12),
    data=st.data(),
)
def test_no_block_that_a_message_ever_had_is_missing_from_what_was_written(steps, data):
    blocks = {"0": "start"}
    longest = dict(blocks)
    live = list(blocks)
    versions = []
    for step in ["same", *steps]:
        if step == "add":
            name = str(len(blocks))
            blocks[name] = f"block {name}"
            live.append(name)
        elif step == "split" and len(live) > 1:
            del live[: data.draw(st.integers(1, len(live) - 1))]
        elif step in {"grow", "clear"}:
            name = data.draw(st.sampled_from(live))
            blocks[name] = blocks[name] + " and more" if step == "grow" else "-"
        for name in live:
            longest[name] = max(longest.get(name, ""), blocks[name], key=len)
        versions.append(message("m", "assistant", *(text(blocks[name], block_id=name) for name in live)))
    kept = {block["id"]: block["text"] for block in merged(written(versions))["content"]}
    assert kept.keys() == longest.keys()
    assert {name: len(words) for name, words in kept.items()} == {name: len(words) for name, words in longest.items()}


def test_the_same_message_is_written_once():
    assert written([talk(1)[0]] * 3) == [talk(1)[0]]


def test_a_call_and_its_result_have_one_id_and_are_two_blocks():
    whole = message("m", "assistant", {"type": "tool_call", "id": "c", "input": "{}"}, result("out", "c"))
    assert merged([whole, message("m", "assistant", result("o", "c"))]) == whole


def test_messages_of_no_shape_at_all_are_written_once_each():
    odd = [None, 1, "x", [], {}, {"id": 3}, {"id": "a", "content": "plain"}, {"id": "b", "content": [1, "x"]}]
    assert written([*odd, *odd]) == odd


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_state_is_laid_out_with_one_message_a_line(number):
    data = encode_state(state(*talk(number)))
    assert decode_state(data) == state(*talk(number))
    assert data.count(b"\n") == (2 * number + 1 if number else 0)


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b"[" * 100_000, b"\xff", b'{"a":' + b"1" * 10_000 + b"}"])
def test_what_is_no_state_is_refused(data):
    with pytest.raises(ValueError):
        decode_state(data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"x":{"context":[\n1\n]},"context":[\n2\n]}',
        b'{"x":{"context":[\n1\n]}}',
        b'\n{"context":[\n\n]\n}',
        b'{"context":[\n1,\n[\n2]]}',
    ],
)
def test_json_that_only_looks_laid_out_in_lines_is_read_as_what_it_is(data):
    assert decode_state(data) == json.loads(data)
