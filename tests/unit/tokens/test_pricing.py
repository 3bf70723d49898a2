"""What tokens cost: the table of families, the user's own prices, and the cost of one request."""

import re

import pytest

from ctxkit.config import Price
from ctxkit.tokens.prices import FAMILIES
from ctxkit.tokens.pricing import in_dollars, price_of, request_cost


@pytest.mark.parametrize(
    ("key", "cached", "written", "output"),
    [
        ("OpenAIChatModel:gpt-5", 0.1, 1, 8),
        ("OpenAIResponseModel:gpt-5.6-sol", 0.1, 1.25, 5),
        ("OpenAIChatModel:gpt-4.1-mini", 0.25, 1, 4),
        ("DeepSeekChatModel:deepseek-v4-flash", 0.02, 1, 4),
        ("OpenAIChatModel:deepseek/deepseek-v4-pro", 0.033, 1, 3),
        ("DashScopeChatModel:deepseek-v4-flash", 0.2, 1, 2),
        ("GeminiChatModel:gemini-3.1-pro-preview", 0.1, 1, 6),
        ("MoonshotChatModel:kimi-k2.6", 0.2, 1, 4.21),
        ("MiniMaxChatModel:MiniMax-M2.5", 0.1, 1, 4),
        ("XAIChatModel:grok-4.7", 0.25, 1, 3),
    ],
)
def test_a_known_model_has_its_familys_prices_whatever_stands_before_its_name(key, cached, written, output):
    price = price_of(key)

    assert price is not None
    assert (price.cached, price.written, price.output) == (cached, written, output)


def test_each_price_names_its_source_and_when_it_was_read():
    price = price_of("OpenAIChatModel:gpt-5")

    assert price is not None
    assert re.search(r"LiteLLM .* 2026-\d\d", price.source)


@pytest.mark.parametrize("key", ["", "ScriptedModel:scripted", "OllamaChatModel:deepseek-v4-flash", "X:gpt-oss-120b"])
def test_a_model_without_a_list_price_has_none(key):
    assert price_of(key) is None


def test_claude_costs_what_it_costs_without_a_cache_until_its_cache_is_asked_for():
    asked = price_of("AnthropicChatModel:claude-sonnet-5-5", ask_for_cache=True)
    unasked = price_of("AnthropicChatModel:claude-sonnet-5-5")

    assert asked is not None
    assert unasked is not None
    assert (asked.cached, asked.written) == (0.05, 1.25)
    assert (unasked.cached, unasked.written) == (1, 1)
    assert "not asked for" in unasked.source


def test_the_users_own_prices_win():
    own = Price(cached=0.3, written=2)

    assert price_of("AnthropicChatModel:claude-opus-5", own) is own
    assert price_of("ScriptedModel:scripted", own) is own


def test_no_family_is_hidden_by_one_that_stands_before_it():
    for number, family in enumerate(FAMILIES):
        hidden = [other.pattern for other in FAMILIES[:number] if family.pattern.startswith(other.pattern)]
        assert hidden == []


def test_a_request_costs_its_cached_beginning_its_written_rest_and_its_answer():
    price = Price(cached=0.1, written=1.25, output=5, input_usd=3)

    cost = request_cost(price, tokens=10_000, stable_tokens=8_000, output_tokens=100)

    assert cost == pytest.approx(800 + 2_500 + 500)
    assert in_dollars(price, cost) == pytest.approx(0.0114)


def test_no_more_of_a_request_is_cached_than_it_has():
    assert request_cost(Price(cached=0.1), tokens=100, stable_tokens=5_000) == pytest.approx(10)


def test_dollars_are_unknown_where_the_price_in_dollars_is():
    assert in_dollars(Price(), 1000) is None
