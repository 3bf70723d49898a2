"""What a provider's usage report means: whether its input tokens contain the cached ones."""

from collections.abc import Mapping
from typing import Final

from agentscope.model import ChatModelBase, ChatUsage

CACHE_IS_IN_INPUT: Final[Mapping[str, bool]] = {
    "AnthropicChatModel": False,  # `input_tokens` is what stands behind the last cache breakpoint
    "DashScopeChatModel": True,  # OpenAI's protocol: `prompt_tokens` is all, `prompt_tokens_details` a part of it
    "DeepSeekChatModel": True,  # `prompt_tokens` = cache hits + misses
    "GeminiChatModel": True,  # `prompt_token_count` is the total; from 2.0.8 on the host adds tool-use tokens
    "MiniMaxChatModel": False,  # a subclass of Anthropic's, the same protocol
    "MoonshotChatModel": True,
    "OllamaChatModel": True,  # no cache counts; of a prompt that Ollama cut, only what was left is counted
    "OpenAIChatModel": True,
    "OpenAIResponseModel": True,
    "VolcengineChatModel": True,
    "XAIChatModel": True,
}
"""Host class to whether `ChatUsage.input_tokens` contains cached tokens; read from each `_model.py`, 2.0.6 to 2.0.10."""


def input_tokens_of(usage: ChatUsage, model: ChatModelBase) -> int:
    """Return all input tokens of a call, those that were read from or written to the provider's cache included.

    Args:
        usage: What the host reports of the call.
        model: The model that was called; a subclass counts as the class of the host that it extends.

    Returns:
        Tokens of the whole request; 0 where the provider did not say.
    """
    # Anthropic's SDK has None for a cache count that was not sent, and the host passes it on in streams.
    cached = (usage.cache_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    reported = usage.input_tokens or 0
    known = next(
        (CACHE_IS_IN_INPUT[kind.__name__] for kind in type(model).__mro__ if kind.__name__ in CACHE_IS_IN_INPUT), None
    )
    # Of an unknown model the numbers may tell: a part is never larger than the whole.
    contained = cached <= reported if known is None else known
    return reported if contained else reported + cached
