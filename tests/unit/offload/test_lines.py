import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.errors import StoreWriteError
from ctxkit.offload import Record, lines

bodies = st.dictionaries(st.text(max_size=8), st.one_of(st.text(max_size=40), st.integers(), st.none()), min_size=1)


def line_of(body: str, *, key: str = "m1:0", kind: str = "message", number: int = 7) -> bytes:
    record = Record(key=key, body=body, kind=kind)
    return lines.seal(lines.encode(record), record, number).removesuffix(b"\n")


@given(bodies, st.text(min_size=1, max_size=300), st.integers(1, 10**12), st.booleans())
def test_a_line_gives_back_what_was_put_on_it(content, key, number, escaped):
    body = json.dumps(content, ensure_ascii=escaped)
    line = line_of(body, key=key, number=number, kind="plan")
    found = lines.unseal(line)
    assert found == lines.Line(lines.encode(Record(key=key, body=body)), number, key, "plan")
    assert lines.examine(line) == lines.Line(b"", number, key, "plan")
    told = lines.seal(lines.encode(Record(key=key, body=body)), Record(key=key, body=body), number, more=3)
    assert lines.examine(told[:-1]) == lines.Line(b"", number, key, more=3)


@given(bodies)
def test_a_line_is_the_body_as_json_with_one_key_more(content):
    read = json.loads(line_of(json.dumps(content)))
    assert read.pop("_ctxkit").keys() == {"k", "n", "c"}
    assert read == {key: value for key, value in content.items() if key != "_ctxkit"}


@given(st.data())
def test_a_line_with_a_changed_byte_is_never_taken_for_whole(data):
    line = bytearray(line_of('{"id":"m1","text":"the quick brown fox"}'))
    at = data.draw(st.integers(0, len(line) - 1))
    line[at] ^= 1 << data.draw(st.integers(0, 7))
    found = lines.unseal(bytes(line))
    assert found is None or found.number is None


def test_a_cut_line_is_never_taken_for_whole():
    line = line_of('{"id":"m1","deep":{"a":{"b":1}}}')
    assert [lines.unseal(line[:end]) for end in range(len(line))] == [None] * len(line)


def test_lines_of_others_are_accepted_and_junk_is_not():
    assert lines.unseal(b'{"id":"m1"}') == lines.Line(b'{"id":"m1"}')
    assert lines.unseal(b'{"id":"m1"}\r') == lines.Line(b'{"id":"m1"}')
    junk = [b"", b" ", b"null", b"[]", b'{"a":1}{"b":2}', b'{"a":' * 2000 + b"}" * 2000, b"\x00" * 50, b"{\xff}", b"{"]
    assert [lines.unseal(line) for line in junk] == [None] * len(junk)


def test_a_lone_surrogate_becomes_an_escape():
    found = lines.unseal(line_of('{"t":"a\ud800b"}'))
    assert json.loads(found.body) == {"t": "a\ud800b"}


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (Record(key="k", body="[]"), "no JSON object"),
        (Record(key="k", body="{}"), "no JSON object"),
        (Record(key="k", body='{"a":\n1}'), "line break"),
        (Record(key="", body='{"a":1}'), "300 characters"),
        (Record(key="k" * 301, body='{"a":1}'), "300 characters"),
        (Record(key="k", body='{"a":1}', kind='"'), "kind"),
    ],
)
def test_what_cannot_stand_on_a_line_is_refused(record, said):
    with pytest.raises(StoreWriteError, match=said):
        lines.encode(record)


def test_a_line_says_whose_words_stand_in_it():
    record = Record(key="m1:0", body='{"id":"m1"}', provenance="assistant+tool")
    line = lines.seal(lines.encode(record), record, 7).removesuffix(b"\n")
    assert json.loads(line)["_ctxkit"]["p"] == "assistant+tool"
    assert lines.unseal(line) == lines.Line(b'{"id":"m1"}', 7, "m1:0", "message", "assistant+tool")


def test_a_provenance_that_is_no_list_of_words_is_refused():
    with pytest.raises(StoreWriteError, match="provenance"):
        lines.encode(Record(key="m1:0", body='{"id":"m1"}', provenance='tool","n":9'))
