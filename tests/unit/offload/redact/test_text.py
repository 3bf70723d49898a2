import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.config import PrivacyConfig
from ctxkit.errors import ConfigError
from ctxkit.offload.redact import (
    DEFAULT_REDACTOR,
    SecretRedactor,
    counting,
    redact_body,
    redact_json,
    redact_text,
    redacted_pieces,
    redactor_of,
)
from tests.planted import planted, run

PLANTED = planted()
PIECE = 32_768


async def in_pieces(text, redactor, start=0, stop=None):
    return [piece async for piece in redacted_pieces(text, redactor, start, stop)]


@pytest.mark.asyncio
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
async def test_a_secret_that_two_pieces_share_is_found(share):
    redactor = SecretRedactor()
    for kind, text, secret in PLANTED:
        at = PIECE - text.index(secret) - int(len(secret) * share)
        clean = await redact_text("w " * (at // 2) + " " * (at % 2) + text + " w" * PIECE, redactor)
        assert f"[REDACTED:{kind}]" in clean
        assert secret not in clean
        assert secret[-6:] not in clean, kind


@pytest.mark.asyncio
async def test_a_text_without_secrets_is_the_very_same_object():
    text = "plain words " * 10_000
    assert await redact_text(text, SecretRedactor()) is text


@pytest.mark.asyncio
async def test_a_long_text_is_redacted_as_it_is_at_once():
    text = "\n".join(text for _, text, _ in PLANTED * 20)
    redactor = SecretRedactor()
    assert len(text) > 3 * PIECE
    assert await redact_text(text, redactor) == redactor(text)


@pytest.mark.asyncio
async def test_a_foreign_redactor_gets_pieces_that_end_at_a_line():
    seen = []

    def redactor(text):
        seen.append(text)
        return text.replace("hunter2", "***")

    text = "".join(f"line {n} has hunter2\n" for n in range(5000))
    assert await redact_text(text, redactor) == text.replace("hunter2", "***")
    assert len(seen) > 2
    assert all(piece.endswith("\n") for piece in seen)


@pytest.mark.asyncio
@pytest.mark.parametrize("answer", [None, 7, ValueError("no")])
async def test_a_redactor_that_fails_lets_nothing_pass(answer):
    def redactor(_):
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(ConfigError, match="redactor"):
        await redact_text("text", redactor)


@pytest.mark.asyncio
async def test_what_tasks_redact_at_the_same_time_is_counted_apart():
    redactor = SecretRedactor()

    async def one(text):
        with counting() as counts:
            await redact_text(text * 3, redactor)
        return dict(counts)

    told = await asyncio.gather(one("ghp_" + run(36, "a") + " "), one("nothing "), one("npm_" + run(36, "b") + " "))
    assert told == [{"github-token": 3}, {}, {"npm-token": 3}]
    assert redactor.counts == {"github-token": 3, "npm-token": 3}


def test_a_config_says_what_redacts():
    assert redactor_of(PrivacyConfig()) is DEFAULT_REDACTOR
    assert redactor_of(PrivacyConfig(redactor=str.lower)) == str.lower
    assert redactor_of(PrivacyConfig(redact=False, redactor=str.lower)) is None


plain_json = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.sampled_from([t for _, t, _ in PLANTED])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "ghp_key", "text"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(plain_json)
def test_every_string_of_plain_json_is_redacted_and_keys_stay(value):
    before = json.dumps(value)
    clean = asyncio.run(redact_json(value, SecretRedactor()))
    assert json.dumps(value) == before
    assert all(secret not in json.dumps(clean) for _, _, secret in PLANTED)
    assert shape(clean) == shape(value)
    if clean == value:
        assert clean is value


def shape(value):
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    return [shape(item) for item in value] if isinstance(value, list) else type(value)


@pytest.mark.asyncio
async def test_ids_types_times_and_media_of_messages_stay_whatever_a_redactor_does():
    message = {
        "id": "m1",
        "role": "user",
        "created_at": "2026-01-01",
        "content": [
            {"type": "text", "id": "t1", "text": "loud"},
            {"type": "data", "id": "d1", "source": {"type": "base64", "data": "abcd", "media_type": "image/png"}},
        ],
        "metadata": {"id": "loud", "details": ["loud"]},
    }
    clean = await redact_json(message, str.upper)
    assert clean["content"][0] == {"type": "text", "id": "t1", "text": "LOUD"}
    assert clean["content"][1] == message["content"][1]
    assert clean["metadata"] == {"id": "LOUD", "details": ["LOUD"]}
    assert (clean["id"], clean["role"], clean["created_at"]) == ("m1", "user", "2026-01-01")


@pytest.mark.asyncio
async def test_deep_json_is_walked_without_recursion():
    value = inner = []
    for _ in range(20_000):
        inner.append([])
        inner = inner[0]
    inner.append("ghp_" + run(36, "deep"))
    clean = await redact_json(value, SecretRedactor())
    for _ in range(20_000):
        clean = clean[0]
    assert clean == ["[REDACTED:github-token]"]


@pytest.mark.asyncio
async def test_a_stored_body_stays_json_and_a_clean_one_the_very_same():
    clean = json.dumps({"id": "m1", "content": [{"type": "text", "text": "a token is a word"}]})
    assert await redact_body(clean, SecretRedactor()) is clean
    for kind, text, secret in PLANTED:
        inside = json.dumps({"command": text})
        body = json.dumps(
            {"id": "m1", "content": [{"type": "tool_call", "input": inside}, {"text": text + " \ud800ü"}]}
        )
        read = json.loads(await redact_body(body, SecretRedactor()))
        assert f"[REDACTED:{kind}]" in json.loads(read["content"][0]["input"])["command"]
        assert read["content"][1]["text"].endswith(" \ud800ü")
        assert secret not in read["content"][1]["text"]
