from hypothesis import given
from hypothesis import strategies as st

from ctxkit.offload.terms import terms


def test_an_identifier_is_found_whole_and_in_parts():
    assert set(terms("src/HttpServer.py")) == {
        "src",
        "httpserver",
        "http",
        "server",
        "py",
        "httpserverpy",
        "srchttpserverpy",
    }
    assert set(terms("max_token_count")) == {"max", "token", "count", "maxtokencount"}
    assert "3f2a11bb" in set(terms("id 3f2a-11bb."))
    assert {"parse", "json", "2", "parsejson2"} <= set(terms("parseJSON2"))


def test_text_without_spaces_gives_pairs():
    assert list(terms("数据库")) == ["数据", "据库"]
    assert list(terms("据")) == ["据"]
    assert {"版本", "v2"} <= set(terms("版本v2"))
    assert set(terms("ＡＢＣ")) == {"abc"}


@given(st.text(max_size=300))
def test_terms_are_letters_and_digits_only_so_that_none_is_an_operator(text):
    for term in terms(text):
        assert term
        assert len(term) <= 64
        assert '"' not in term
        assert " " not in term
