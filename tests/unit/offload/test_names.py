import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.offload import fsname, result_name

HOSTILE = [
    "", ".", "..", "/", "../x", "../../etc/passwd", "/etc/passwd", "a/b", "a\\b", "..\\..\\x", "C:\\x", "\\\\srv\\share", "a\x00b",
    "\n", " ", "a ", "a.", "-rf", "~", "$(id)", "*", '"', "<", "con", "CON", "nul", "com1", "COM¹", "lpt9", "x" * 101, "x" * 300,
    "é" * 128, "é", "e\u0301", "K", "\u212a", "k", "\ud800", "\u202e", "\u200b", "A", "a", ".git", ".lock", "context.jsonl",
    "id~" + "0" * 32, "%2e%2e%2f", "_x", "tool_result-x",
]  # fmt: skip
PLAIN = set(string.ascii_lowercase + string.digits + "_-~")

identifiers = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.sampled_from("./\\~ :\x00\nAaBbéK\u212a\u0301%$*?x"), max_size=60),
    st.text(max_size=40),
)


@pytest.mark.parametrize("identifier", ["call_abc123", "0f3e9c2a", "a-b_c", "a" * 100])
def test_a_readable_id_is_its_own_name(identifier):
    assert fsname(identifier) == identifier


@given(identifiers)
def test_a_name_is_one_harmless_component(identifier):
    name = fsname(identifier)
    assert set(name) <= PLAIN
    assert 0 < len(name) <= 100
    assert name[0] not in "-_"
    assert name.partition(".")[0] not in {"con", "prn", "aux", "nul", "com1", "lpt9"}


@given(identifiers, identifiers)
def test_two_ids_never_share_a_name_even_where_case_is_folded(one, other):
    def folded(identifier):
        return unicodedata.normalize("NFD", fsname(identifier)).casefold()

    assert (folded(one) == folded(other)) == (one == other)


def test_a_name_is_not_the_name_of_another_id():
    assert fsname(fsname("A")) != fsname("A")


def test_a_result_is_named_after_its_call():
    assert result_name("call_1") == "tool_result-call_1.txt"
    assert "/" not in result_name("../../x")
