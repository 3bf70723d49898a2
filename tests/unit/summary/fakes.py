"""A model that answers by a script, for the summary's tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ctxkit.config import SummaryConfig
from ctxkit.port import Answer, Usage
from ctxkit.schema import summary_json_schema
from ctxkit.summary import Summarizer
from tests.unit.fakes import FakeCodec, FakeMsg

FIELDS = {
    "task_overview": "Fix the parser.",
    "current_state": "Two of three tests pass.",
    "important_discoveries": "The lexer is fine.",
    "next_steps": "Look at line 40.",
    "context_to_preserve": "Use tabs.",
}
GOOD = json.dumps(FIELDS)
USAGE = Usage(input_tokens=100, output_tokens=10, cache_read_tokens=90)


@dataclass(kw_only=True)
class Sent:
    """One call that the model got."""

    messages: Sequence[FakeMsg]
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: object | None = None
    forbid_tools: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    structured: bool = False

    @property
    def text(self) -> str:
        blocks = [block for message in self.messages for block in message.content]
        return "\n".join(
            getattr(b, "text", None) or getattr(b, "output", None) or getattr(b, "input", "") for b in blocks
        )


@dataclass(kw_only=True)
class FakeModel:
    """`ctxkit.port.ModelPort` by a script: a text, an Answer, an exception, "hang", or a function of what was sent."""

    plain: list[Any] = field(default_factory=list)
    structured_answers: list[Any] = field(default_factory=list)
    context_size: int = 100_000
    key: str = "fake:model"
    swallow: bool = True
    """As AgentScope: a cancellation comes back as an interrupted answer."""
    sent: list[Sent] = field(default_factory=list)
    hangs: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: int = 0

    async def call(self, messages, tools=(), *, tool_choice=None, forbid_tools=False, options=None) -> Answer:
        sent = Sent(
            messages=list(messages),
            tools=tools,
            tool_choice=tool_choice,
            forbid_tools=forbid_tools,
            options=options or {},
        )
        self.sent.append(sent)
        return await self._answer(self.plain, sent)

    async def structured(self, messages, schema) -> Answer:
        sent = Sent(messages=list(messages), structured=True)
        self.sent.append(sent)
        answer = await self._answer(self.structured_answers, sent)
        return Answer(content=json.loads(answer.text), usage=answer.usage) if answer.text else answer

    async def _answer(self, script: list[Any], sent: Sent) -> Answer:
        step = script[0] if script else OSError("the script is over")
        if callable(step):
            step = step(sent)
        elif script:
            script.pop(0)
        if step == "hang":
            self.hangs.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.stopped += 1
                if self.swallow:
                    return Answer(interrupted=True, text=GOOD)
                raise
        await asyncio.sleep(0)
        if isinstance(step, BaseException):
            raise step
        return step if isinstance(step, Answer) else Answer(text=step, usage=USAGE)


async def count(text: str) -> int:
    """Count a token for each four characters, with a pause as the real counter."""
    await asyncio.sleep(0)
    return (len(text) + 3) // 4


def summarizer(model: FakeModel, *, schema: Mapping[str, Any] | None = None, **config: Any) -> Summarizer:
    return Summarizer(
        model,
        FakeCodec(),
        schema=schema or summary_json_schema(),
        prompt="Summarise. It is {current_time}. Keep {braces}.",
        config=SummaryConfig(**{"retry_delay_s": 0, "attempts": 1, **config}),
        count=count,
        now=lambda: "noon",
        nonce=lambda: "n0nce",
    )
