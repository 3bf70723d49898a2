"""Whose words stand in a message, told from its blocks and never from what they say."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agentscope.message import Msg

    from ctxkit.port import Block

USER: Final = "user"
ASSISTANT: Final = "assistant"
TOOL: Final = "tool"
"""A tool's result; what it says is nobody's wish."""
RECALLED: Final = "recalled"
"""The result of a recall tool: words of before, whosever they were."""
HINT: Final = "hint"
"""What the host put in for other agents, background tools or itself."""
SYSTEM: Final = "system"
SUMMARY: Final = "summary"
"""What a model or ctxkit made of other words."""

_ORDER: Final = (USER, ASSISTANT, TOOL, RECALLED, HINT, SYSTEM, SUMMARY)


def provenance_of(message: "Msg") -> str:
    """Return whose words stand in a message, joined by `+`: the host keeps an agent's words and its tools' in one."""
    words = {_whose(block, message.role) for block in message.content}
    return "+".join(word for word in _ORDER if word in words)


def is_recalled(block: "Block") -> bool:
    """Whether a block is the result of one of ctxkit's recall tools, by the mark that it was given on admission."""
    mark = getattr(block, "metadata", {}).get("ctxkit") if block.type == "tool_result" else None
    return isinstance(mark, dict) and mark.get("recalled") is True


def _whose(block: "Block", role: str) -> str:
    if block.type == "tool_result":
        return RECALLED if is_recalled(block) else TOOL
    if block.type == "hint":
        return HINT
    return role if role in {USER, SYSTEM} else ASSISTANT
