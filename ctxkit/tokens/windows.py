"""How large a model's context window is: what the config says, else the model, else a table of known models."""

from collections.abc import Mapping
from typing import Final

from ctxkit.config import WindowConfig
from ctxkit.errors import ConfigError

KNOWN_WINDOWS: Final[Mapping[str, int]] = {
    # Digitorn's documentation, "Provider Auto-Detection".
    "deepseek-chat": 131_072,
    "gpt-4o": 128_000,
    "o3": 200_000,
    "llama-3.3-70b-versatile": 128_000,
    "mistral-large-latest": 128_000,
    # The smallest window of each family among AgentScope 2.0.10's model cards, read in November 2026.
    "claude": 200_000,
    "doubao-seed": 256_000,
    "gemini": 1_048_576,
    "glm-5": 1_000_000,
    "gpt-4.1": 1_047_576,
    "gpt-5.": 1_050_000,
    "grok-3": 131_072,
    "grok-4": 500_000,
    "kimi-k": 262_144,
    "minimax": 204_800,
    "moonshot-v1-8k": 8_192,
    "moonshot-v1-32k": 32_768,
    "moonshot-v1-128k": 131_072,
    "o4-mini": 200_000,
    "qwen-flash": 1_000_000,
    "qwen-plus": 1_000_000,
}
"""Beginning of a model's name to the tokens of its window; the longest beginning that fits holds. Local models are not in
it: their window is what their server was started with."""


def resolve_window(model_name: str, claimed: int | None, config: WindowConfig) -> int:
    """Return the tokens of a model's window.

    Args:
        model_name: The model's name, as its provider writes it.
        claimed: What the model itself says; 0 or `None` where it does not say.
        config: What the user says.

    Returns:
        The first of `max_tokens`, what the model says, the table's, and `default_tokens`; at most `cap_tokens`.

    Raises:
        ConfigError: Nobody knows the window.
    """
    window = config.max_tokens or claimed or known_window(model_name) or config.default_tokens
    if not window:
        msg = (
            f"The context window of model {model_name!r} is not known (it says {claimed!r}): set its context_size, or "
            "WindowConfig.max_tokens or default_tokens."
        )
        raise ConfigError(msg)
    return window if config.cap_tokens is None else min(window, config.cap_tokens)


def known_window(model_name: str) -> int | None:
    """Return the tokens of the window that the table has for a model, or None; `provider/model` counts as `model`."""
    name = model_name.rpartition("/")[2].lower()
    fits = [start for start in KNOWN_WINDOWS if name.startswith(start)]
    return KNOWN_WINDOWS[max(fits, key=len)] if fits else None


def check_window(tokens: int, model_name: str, config: WindowConfig) -> None:
    """Refuse a window that is smaller than may be.

    Raises:
        ConfigError: It is smaller than `refuse_below_tokens`, and `allow_tiny` is off.
    """
    if tokens < config.refuse_below_tokens and not config.allow_tiny:
        msg = (
            f"The context window of model {model_name!r} is {tokens} tokens, and WindowConfig.refuse_below_tokens is "
            f"{config.refuse_below_tokens}: take a model with a larger window, or set allow_tiny=True for a test."
        )
        raise ConfigError(msg)
