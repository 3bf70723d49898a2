"""Rules: what happens when a context fills or tools are called too often; with a condition and an action of one's own."""

import asyncio
import logging
from dataclasses import dataclass

from agentscope.agent import Agent, ReActConfig
from agentscope.message import TextBlock, UserMsg
from agentscope.tool import FunctionTool, ToolChunk, Toolkit

from ctxkit import CompressionMiddleware, Facts, RuleAgent, RuleKinds, RulesMiddleware, rules_of
from ctxkit.testing import ScriptedModel, call

kinds = RuleKinds()


@kinds.condition("nearly_full")
@dataclass(frozen=True)
class NearlyFull:
    """Less than so many tokens are left for the next request."""

    left_tokens: int

    def is_met(self, facts: Facts) -> bool:
        """Whether that is so."""
        return facts.context_size - facts.output_reserved - facts.tokens < self.left_tokens


@kinds.action("ring")
@dataclass(frozen=True)
class Ring:
    """Ring a bell; a real one would page somebody."""

    times: int = 1

    async def act(self, agent: RuleAgent) -> None:
        """Ring it."""
        print(f"{'ding ' * self.times}for {agent.name}: {agent.facts.tokens:,} tokens")


def count(metric: str) -> None:
    """Count something; a real one would tell a meter."""
    print(f"counted: {metric}")


RULES = rules_of(
    [
        {
            "id": "pressure_log",
            "on": "turn_start",
            "condition": {"type": "always"},
            "action": {"type": "log", "message": "Turn {turn}: ~{tokens} tokens, {messages} messages"},
            "cooldown": 3600,
        },
        {
            "id": "compact",
            "on": "turn_start",
            "condition": {"type": "context_pressure", "threshold": 0.6},
            "action": {"type": "compact_context", "strategy": "truncate", "keep_recent": 4},
        },
        {
            "id": "hurry",
            "on": "turn_start",
            "condition": {"type": "tool_calls", "threshold": 9},
            "action": {"type": "inject_message", "message": "Ten calls: come to an end."},
            "cooldown": 3600,
        },
        {
            "id": "count",
            "on": "turn_end",
            "condition": {"type": "message_count", "threshold": 3},
            "action": {
                "type": "module_action",
                "module": "meter",
                "action": "count",
                "params": {"metric": "long turns"},
            },
        },
        {
            "id": "bell",
            "on": "turn_end",
            "condition": {"type": "nearly_full", "left_tokens": 13_000},
            "action": {"type": "ring"},
        },
    ],
    kinds=kinds,
)


async def read_page(number: int) -> ToolChunk:
    """Return one page of about 1,000 tokens."""
    return ToolChunk(content=[TextBlock(text=f"Page {number}. " + "All work and no play. " * 160)])


async def main() -> None:
    """Run an agent with these rules, and say what each did."""
    logging.basicConfig(format="log: %(message)s")
    logging.getLogger("ctxkit.rules").setLevel(logging.INFO)
    model = ScriptedModel([*(call("read_page", number=number) for number in range(12)), "Read."], context_size=16_000)
    agent = Agent(
        name="reader",
        system_prompt="You read pages.",
        model=model,
        toolkit=Toolkit(tools=[FunctionTool(read_page, is_read_only=True)]),
        middlewares=[RulesMiddleware(RULES, modules={"meter": {"count": count}}), CompressionMiddleware()],
        react_config=ReActConfig(max_iters=50),
    )
    async for event in agent.reply_stream(UserMsg("user", "Read twelve pages.")):
        if getattr(event, "name", "") == "ctxkit.rule.fired":
            print(f"fired: {event.value['rule']}")


if __name__ == "__main__":
    asyncio.run(main())
