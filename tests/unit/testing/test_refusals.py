"""The refusals that tests make are those that `recognise` knows, and the SDKs' own."""

import anthropic
import openai
import pytest

from ctxkit.overflow import recognise
from ctxkit.testing.refusals import overflow_body, overflow_error, sdk_error

PROVIDERS = [
    "openai",
    "azure",
    "anthropic",
    "deepseek",
    "dashscope",
    "moonshot",
    "vllm",
    "llamacpp",
    "gemini",
    "ollama",
]
SAYS_NOT_HOW_MUCH = {"dashscope", "moonshot", "ollama"}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_refusal_is_recognised_with_its_numbers(provider):
    found = recognise(overflow_error(provider, limit_tokens=32_768, needed_tokens=40_001))

    assert found is not None
    assert found.limit_tokens == (None if provider == "ollama" else 32_768)
    assert found.needed_tokens == (None if provider in SAYS_NOT_HOW_MUCH else 40_001)


def test_the_error_is_the_sdks_own():
    assert isinstance(overflow_error("openai", limit_tokens=1, needed_tokens=2), openai.BadRequestError)
    assert isinstance(overflow_error("anthropic", limit_tokens=1, needed_tokens=2), anthropic.BadRequestError)


def test_where_an_sdk_is_absent_its_error_has_the_same_name_and_attributes():
    gemini = overflow_error("gemini", limit_tokens=8192, needed_tokens=9000)
    ollama = overflow_error("ollama", limit_tokens=8192, needed_tokens=9000)

    assert (type(gemini).__name__, gemini.code, gemini.status) == ("ClientError", 400, "INVALID_ARGUMENT")
    assert gemini.message == "The input token count (9000) exceeds the maximum number of tokens allowed (8192)."
    assert gemini.details["error"]["message"] == gemini.message
    assert (type(ollama).__name__, ollama.status_code) == ("ResponseError", 400)
    assert ollama.error == "prompt too long; exceeded max context length by 808 tokens"


def test_openais_error_has_the_code_and_the_response():
    error = overflow_error("openai", limit_tokens=8192, needed_tokens=9000)

    assert error.code == "context_length_exceeded"
    assert error.status_code == 400
    assert error.response.json() == overflow_body("openai", limit_tokens=8192, needed_tokens=9000)


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
        (529, "InternalServerError"),
        (418, "APIStatusError"),
    ],
)
@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
def test_a_status_has_the_class_that_the_sdk_gives_it(sdk, status, name):
    error = sdk_error(sdk, status=status, body={"error": {"message": "no"}})

    assert type(error).__name__ == name
    assert recognise(error) is None


def test_an_unknown_provider_is_refused_with_the_names_of_those_there_are():
    with pytest.raises(ValueError, match=r"'acme'.*openai, azure, anthropic"):
        overflow_body("acme", limit_tokens=1, needed_tokens=2)
