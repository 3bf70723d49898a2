"""How large a model's window is taken to be."""

import pytest

from ctxkit.config import WindowConfig
from ctxkit.errors import ConfigError
from ctxkit.tokens.windows import check_window, known_window, resolve_window


def test_the_config_goes_before_the_model_the_model_before_the_table_and_the_table_before_the_default():
    config = WindowConfig(default_tokens=200_000)

    assert resolve_window("gpt-4o", 64_000, WindowConfig(max_tokens=50_000)) == 50_000
    assert resolve_window("gpt-4o", 64_000, config) == 64_000
    assert resolve_window("gpt-4o", 0, config) == 128_000
    assert resolve_window("somebody's own", None, config) == 200_000


def test_the_cap_holds_whatever_the_window_comes_from():
    config = WindowConfig(cap_tokens=100_000)

    assert resolve_window("gpt-4o", 0, config) == 100_000
    assert resolve_window("gpt-4o", 64_000, config) == 64_000
    assert resolve_window("gpt-4o", 64_000, WindowConfig(max_tokens=150_000, cap_tokens=100_000)) == 100_000


def test_a_model_that_nobody_knows_must_say_its_window():
    with pytest.raises(ConfigError, match=r"'qwen2.5:3b' is not known .*WindowConfig.max_tokens"):
        resolve_window("qwen2.5:3b", 0, WindowConfig())


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("deepseek-chat", 131_072),
        ("gpt-4o", 128_000),
        ("gpt-4o-mini", 128_000),
        ("o3", 200_000),
        ("o3-mini", 200_000),
        ("llama-3.3-70b-versatile", 128_000),
        ("mistral-large-latest", 128_000),
        ("anthropic/claude-sonnet-5", 200_000),
        ("GPT-4.1-mini", 1_047_576),
        ("moonshot-v1-8k", 8_192),
    ],
)
def test_known_models_have_the_windows_of_the_table(name, tokens):
    assert known_window(name) == tokens


def test_a_window_below_the_least_is_refused_unless_it_is_said_to_be_a_test():
    config = WindowConfig(refuse_below_tokens=16_000)

    check_window(16_000, "m", config)
    with pytest.raises(ConfigError, match=r"15999 tokens, and WindowConfig.refuse_below_tokens is 16000"):
        check_window(15_999, "m", config)
    check_window(1_000, "m", WindowConfig(refuse_below_tokens=16_000, allow_tiny=True))
