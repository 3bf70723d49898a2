"""Real agents on scripted models, and what tests ask of their contexts and streams."""

import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from agentscope.agent import Agent, InjectionConfig, ReActConfig
from agentscope.message import AssistantMsg, Msg, TextBlock, ToolCallBlock, ToolResultBlock, UserMsg
from agentscope.middleware import MiddlewareBase
from agentscope.tool import FunctionTool, ToolBase, Toolkit

from ctxkit import CompressionMiddleware, ContextConfig, ContextEvent, MemoryStore, Receipt, StoreOffloader
from ctxkit.host._codec import HostCodec
from ctxkit.testing import ScriptedModel, call

WORDS = "alpha river stone mark table green north seven light round paper field engine winter simple open".split()


def words(number: int, *, seed: str = "") -> str:
    """Return so many plain words, about 1.1 tokens each, the same for the same seed and others for another."""
    digest = hashlib.sha256(seed.encode()).digest()
    return " ".join(WORDS[(digest[i % 32] + i * 7) % len(WORDS)] for i in range(number))


def fetch(topic: str, size: int = 300) -> str:
    """Fetch what is known of a topic.

    Args:
        topic (str): The topic.
        size (int): How many words.
    """
    return f"Report on {topic}: its number is {number_of(topic)}.\n{words(size, seed=topic)}"


def number_of(topic: str) -> str:
    """Return the identifier that stands in the report on a topic and nowhere else."""
    return f"NR-{hashlib.sha256(topic.encode()).hexdigest()[:10]}"


def fetches(number: int, *, size: int = 300, prefix: str = "topic") -> list[ToolCallBlock]:
    """Return a script in which `fetch` is called so many times, each for another topic."""
    return [call("fetch", topic=f"{prefix}-{i}", size=size) for i in range(number)]


def make_agent(
    model: ScriptedModel,
    *,
    config: Any = None,
    tools: Iterable[Any] = (fetch,),
    offloader: object | None = None,
    middlewares: Sequence[MiddlewareBase] | None = None,
    prompt: str = "You look things up.",
    name: str = "scribe",
    **kwargs: Any,
) -> Agent:
    """Return a real agent with one `CompressionMiddleware`, unless it is told other middlewares."""
    kwargs.setdefault("react_config", ReActConfig(max_iters=1000))
    if InjectionConfig.model_fields["context_buffer_ratio"].default is not None:
        # AgentScope 2.0.6 has the buffer here, and refuses a trigger below it; later ones in `ContextConfig`.
        kwargs.setdefault("injection_config", InjectionConfig(context_buffer_ratio=0.01))
    made = Toolkit(tools=[t if isinstance(t, ToolBase) else FunctionTool(t, is_read_only=True) for t in tools])
    return Agent(
        name=name,
        system_prompt=prompt,
        model=model,
        toolkit=kwargs.pop("toolkit", made),
        context_config=config or ContextConfig(),
        offloader=offloader,
        middlewares=[CompressionMiddleware()] if middlewares is None else list(middlewares),
        **kwargs,
    )


def memory_offloader() -> StoreOffloader:
    """Return an offloader of ctxkit's that keeps everything in memory; its `store` is public."""
    return StoreOffloader(MemoryStore(), HostCodec())


def user(text: str) -> Msg:
    """Return what a user says."""
    return UserMsg(name="user", content=text)


def exchange(number: int, *, size: int = 300, prefix: str = "old") -> list[ToolCallBlock | ToolResultBlock]:
    """Return a finished call of `fetch` and its result."""
    topic = f"{prefix}-{number}"
    made = call("fetch", topic=topic, size=size)
    made.state = "finished"
    return [made, ToolResultBlock(id=made.id, name="fetch", output=[TextBlock(text=fetch(topic, size))])]


def history(turns: int, *, size: int = 300, name: str = "scribe", prefix: str = "old") -> list[Msg]:
    """Return so many turns of an earlier conversation, as the host keeps them: one message a reply."""
    messages: list[Msg] = []
    for i in range(turns):
        messages.append(user(f"Question {i}: what of {prefix}-{i}?"))
        answer = TextBlock(text=f"Answer {i}: {number_of(f'{prefix}-{i}')}.")
        messages.append(AssistantMsg(name=name, content=[*exchange(i, size=size, prefix=prefix), answer]))
    return messages


async def events_of(stream: AsyncIterator[Any]) -> list[Any]:
    """Return everything that a stream of a reply yields."""
    return [event async for event in stream]


def told(events: Iterable[Any]) -> list[str]:
    """Return the names of ctxkit's events, in order, without their common prefix."""
    return [event.name.removeprefix("ctxkit.") for event in events if isinstance(event, ContextEvent)]


def receipts(agent: Agent) -> tuple[Receipt, ...]:
    """Return the receipts of an agent's own `CompressionMiddleware`."""
    middleware = next(m for m in agent._compress_context_middlewares if isinstance(m, CompressionMiddleware))
    return middleware.receipts(agent)


def applied(agent: Agent) -> list[Receipt]:
    """Return the receipts of compressions that changed the context."""
    return [receipt for receipt in receipts(agent) if receipt.outcome == "applied"]


def orphans(context: Iterable[Msg]) -> list[str]:
    """Return the ids of calls without a result and of results without an earlier call."""
    calls: Counter[str] = Counter()
    alone: list[str] = []
    for message in context:
        for block in message.content:
            if block.type == "tool_call":
                calls[block.id] += 1
            elif block.type == "tool_result":
                if calls[block.id] < 1:
                    alone.append(block.id)
                calls[block.id] -= 1
    return alone + [call_id for call_id, left in calls.items() if left > 0]


def text_of(context: Iterable[Msg]) -> str:
    """Return all that stands in messages, results and arguments included."""
    return "\n".join(text for message in context for block in message.content for text in _texts(block))


def summary_text(agent: Agent) -> str:
    """Return the text of an agent's summary layer."""
    layer = agent.state.summary
    return layer if isinstance(layer, str) else "\n".join(block.text for block in layer if block.type == "text")


def _texts(block: Any) -> list[str]:
    if block.type in {"tool_result", "hint"}:
        inside = block.output if block.type == "tool_result" else block.hint
        return [inside] if isinstance(inside, str) else [piece.text for piece in inside if piece.type == "text"]
    return [getattr(block, {"text": "text", "thinking": "thinking", "tool_call": "input"}.get(block.type, "id"))]
