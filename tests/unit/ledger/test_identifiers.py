from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.ledger import identifiers_of
from ctxkit.ledger.identifiers import is_opaque


@pytest.mark.parametrize(
    "name",
    [
        "src/app/main.py",
        "/etc/hosts",
        "https://example.org/a?b",
        "localhost:8080",
        "10.0.0.7:5432",
        "ada@example.org",
        "123e4567-e89b-12d3-a456-426614174000",
        "deadbeef1234",
        "PROJ-1234",
        "#W2378156",
        "v1.2.3",
        "2026-03-04",
        "DATABASE_URL",
        "parse_config",
        "parseConfig",
        "HttpClient",
        "os.path.join",
        "987654",
        "订单处理器",
    ],
)
def test_an_identifier_in_a_sentence_is_found_letter_by_letter(name):
    found = identifiers_of(f"Then use {name}, please.", 100)
    assert any(part in name and len(part) >= len(name) - 2 for part in found), found


@pytest.mark.parametrize("prose", ["plain words only", "e.g. this, i.e. that", "see 12 of 345", "lines 12-40", ""])
def test_prose_and_short_numbers_are_no_identifiers(prose):
    assert identifiers_of(prose, 100) == []


def test_a_json_key_is_no_identifier_but_its_value_is():
    assert identifiers_of('{"order_id": "ORD-10042", "unit_price": 3}', 100) == ["ORD-10042"]


def test_of_too_many_identifiers_the_first_and_the_last_are_kept():
    text = " ".join(f"name_{n}" for n in range(1000))
    assert identifiers_of(text, 4) == ["name_0", "name_1", "name_998", "name_999"]


def test_base64_is_data_and_no_identifier():
    assert identifiers_of("A1b2" * 200, 100) == []


@pytest.mark.parametrize(
    ("name", "opaque"), [("987654", True), ("PROJ-12", True), ("a/b.py", False), ("parse_it", False)]
)
def test_a_number_or_ticket_needs_its_line_and_a_name_does_not(name, opaque):
    assert is_opaque(name) is opaque


@given(st.text(max_size=400))
def test_each_identifier_stands_literally_in_the_text(text):
    assert all(name in text for name in identifiers_of(text, 50))


@pytest.mark.parametrize("part", ["a/", "a.", "a_", "a-1", "<", "https://", "1:", "é/é", "aA"])
def test_no_text_makes_the_scan_slow(part):
    text = part * (32_768 // len(part))
    started = time.thread_time()
    identifiers_of(text, 100)
    assert time.thread_time() - started < 0.5
