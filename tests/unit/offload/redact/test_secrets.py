import json
import lzma
import re
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ctxkit.errors import ConfigError
from ctxkit.offload.redact import RULES, Rule, SecretRedactor
from tests.planted import planted, run

ROOT = Path(__file__).parents[4]
RECORDINGS = ROOT.parent / "shared" / "data" / "recordings.jsonl.xz"
PLANTED = planted()
EVIL = (
    "a",
    "-",
    " ",
    "eyJ",
    "-eyJ",
    "eyJ.-",
    "a://",
    "://a:",
    "api_key=",
    "token:",
    "token=token=",
    'password="',
    'secret\\\\\\"',
    "bearer ",
    "bearer a1.",
    "sk-",
    "-sk-ant-",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----!",
    "secret_access_key ",
)

# What reads like code, prose and settings, and holds no secret.
HARMLESS = (
    "tokens_before = reading.tokens",
    "token = await self._next_token(stream)",
    "password=os.environ['DB_PASSWORD'], token=cfg2.token_v2",
    "max_tokens: 20000000000000",
    '"token_type": "bearer", "expires_in": 3600',
    "Authorization: Bearer <token>",
    "Enter your password: correct the secret ingredient",
    "sk-learn is not sklearn, and sk-internationalization-of-things is a class",
    "https://example.org:8080/path@2x.png and git@github.com:a/b.git",
    "postgres://user:password@localhost/db and mysql://root:${MYSQL_PASSWORD}@db",
    "commit 5b4fd11a0c0e2f1de7b24f5f6de7c2a6a1a7c6d9e",
    "id: 123e4567-e89b-12d3-a456-426614174000",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "pwd: /home/ada/project1/src2",
    "secret: 'changeme1234', api_key: 'your-api-key-123', token='example-token-12345'",
)


def outside(secret: str, text: str) -> list[str]:
    """Return the longest parts of a secret that stand in a text, from six characters on."""
    return [secret[at : at + 6] for at in range(len(secret) - 5) if secret[at : at + 6] in text]


def test_there_are_forty_secrets_of_twelve_kinds_to_plant():
    assert len(PLANTED) >= 40
    assert len({kind for kind, _, _ in PLANTED}) >= 12


@pytest.mark.parametrize(
    ("kind", "text", "secret"), PLANTED, ids=[f"{n}-{kind}" for n, (kind, _, _) in enumerate(PLANTED)]
)
def test_a_secret_is_replaced_by_its_kind_and_nothing_of_it_stays(kind, text, secret):
    redactor = SecretRedactor()
    clean = redactor(f"before\n{text}\nafter")
    assert f"[REDACTED:{kind}]" in clean
    left = clean.replace(f"[REDACTED:{kind}]", "")
    assert outside(secret.replace("PRIVATE KEY", "").strip("- "), left) == []
    assert clean.startswith("before\n")
    assert clean.endswith("\nafter")
    assert redactor.counts == {kind: 1}


@pytest.mark.parametrize(
    ("kind", "text", "secret"), PLANTED, ids=[f"{n}-{kind}" for n, (kind, _, _) in enumerate(PLANTED)]
)
@pytest.mark.parametrize("before", [" ", "\\n", "\\u003d", "%3D", "=", "'", "(", "字"])
def test_a_secret_is_found_whatever_stands_before_it(kind, text, secret, before):
    assert secret not in SecretRedactor()(f"x{before}{text}")


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text):
    assert SecretRedactor()(text) == text


def test_a_private_key_without_an_end_goes_as_far_as_it_looks_like_one():
    body = "\n".join(run(64, str(n)) for n in range(5))
    clean = SecretRedactor()(f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n<cut>")
    assert clean == "[REDACTED:private-key]<cut>"


def test_two_kinds_in_one_place_are_one_replacement_by_the_more_telling():
    redactor = SecretRedactor()
    key = "sk-ant-api03-" + run(60, "both")
    assert redactor(f"ANTHROPIC_API_KEY={key}") == "ANTHROPIC_API_KEY=[REDACTED:anthropic-key]"
    assert redactor.counts == {"anthropic-key": 1}


texts = st.lists(
    st.one_of(
        st.sampled_from([text for _, text, _ in PLANTED]),
        st.sampled_from([text[: len(text) // 2] for _, text, _ in PLANTED]),
        st.sampled_from(
            ["\n", " ", "=", ":", '"', "@", "://", "password=", "[REDACTED:token]", "token: ", "İ", "\ud800"]
        ),
        st.text(max_size=12),
    ),
    max_size=8,
).map("".join)


@given(texts)
def test_a_second_time_changes_nothing(text):
    redactor = SecretRedactor()
    once = redactor(text)
    assert redactor(once) == once


@given(texts)
def test_both_engines_give_the_same(text):
    pytest.importorskip("re2", reason="google-re2 is not installed")
    assert SecretRedactor(engine="re2")(text) == SecretRedactor(engine="re")(text)


@given(texts, st.integers(1, 60))
def test_a_text_looked_at_in_parts_loses_no_less_than_at_once(text, size):
    redactor = SecretRedactor()
    parts = [span for start in range(0, len(text), size) for span in redactor.spans(text, start, start + size)]
    assert covered(redactor.spans(text)) <= covered(parts)


def covered(spans):
    return {place for span in spans for place in range(span.start, span.stop)}


@pytest.mark.parametrize("piece", EVIL)
def test_hostile_text_takes_a_time_that_grows_with_its_length(piece):
    text = piece * (1_000_000 // len(piece))
    redactor = SecretRedactor(engine="re")
    started = time.thread_time()
    redactor(text)
    # All rules together; a square of the length would take minutes.
    assert time.thread_time() - started < 0.25 * len(RULES)


def test_no_pattern_of_a_rule_can_backtrack_far():
    for rule in RULES:
        # One unbounded run of one class at most, at the end or before what its class excludes.
        assert len(re.findall(r"\{\d+,\}", rule.pattern)) <= (2 if "|" in rule.pattern else 1), rule
        assert re.search(r"(?<!\\)[*+](?![\]a-zA-Z0-9/_.~%-])", re.sub(r"\[[^\]]*\]", "C", rule.pattern)) is None, rule


@pytest.mark.skipif(not RECORDINGS.exists(), reason="the recorded agent runs are not here")
def test_three_thousand_clean_lines_have_fewer_than_five_false_finds():
    lines = islice(recorded_lines(), 0, 3000 * 37, 37)
    assert sum(len(SecretRedactor().spans(line)) for line in lines) < 5


def recorded_lines() -> Iterator[str]:
    with lzma.open(RECORDINGS, "rt", encoding="utf-8") as file:
        for run_ in map(json.loads, file):
            for message in run_["messages"]:
                yield from (line for line in str(message.get("content") or "").splitlines() if line.strip())


def test_the_source_of_this_project_has_no_secret():
    found = [(path.name, span) for path in source_files() for span in SecretRedactor().spans(path.read_text("utf-8"))]
    assert found == []


def source_files() -> Iterator[Path]:
    yield from (ROOT / "ctxkit").rglob("*.py")
    yield from (ROOT / "docs").rglob("*.md")


def test_an_own_rule_is_added_to_the_built_in_ones():
    redactor = SecretRedactor((*RULES, Rule(kind="badge", literals=("BADGE-",), pattern=r"BADGE-[0-9]{6,}")))
    assert redactor("BADGE-1234567 and " + "ghp_" + run(36, "o")) == "[REDACTED:badge] and [REDACTED:github-token]"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": "Bad Kind", "literals": ("x",), "pattern": "x"}, "Bad Kind"),
        ({"kind": "bad", "literals": (), "pattern": "x"}, "bad"),
        ({"kind": "bad", "literals": ('"x',), "pattern": "x"}, "quotes"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(settings, said):
    with pytest.raises(ConfigError, match=said):
        Rule(**settings)


def test_a_pattern_that_cannot_be_compiled_is_refused():
    with pytest.raises(ConfigError, match=r"rule 'bad'"):
        SecretRedactor((Rule(kind="bad", literals=("x",), pattern="x("),))


_PARTS = (
    *("password", "token", "api_key", "Bearer ", "://u:", "@", "=", ": ", '"', "]", "[", "&", "\n", " ", "host"),
    *("hunter2!xx", "pa55word", "abc123def456ghi", "ghp_" + "a1" * 20, "sk-ant-" + "x9" * 15),
    *("-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----", "[REDACTED:password]"),
)


@pytest.mark.row("X17")
@given(st.lists(st.sampled_from(_PARTS), min_size=2, max_size=9).map("".join))
@example("ghp_" + "a1" * 20 + ": abc123def456ghi")
@example("://u:token-----BEGIN RSA PRIVATE KEY-----pa55word@")
def test_what_was_redacted_once_is_not_changed_by_a_second_time(text):
    redactor = SecretRedactor()
    once = redactor(text)
    assert redactor(once) == once
