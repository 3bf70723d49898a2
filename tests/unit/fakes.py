"""Messages and blocks with the attributes of AgentScope's, and a codec on them, for tests that run without AgentScope."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from ctxkit.config import LadderConfig, OverflowConfig, ResultsConfig, Settings, SummaryConfig, TriggersConfig
from ctxkit.port import Request, Swap
from ctxkit.schema import summary_json_schema
from ctxkit.strategies import Situation
from ctxkit.view import View

_numbers = itertools.count(1)
CREATED_AT = "2026-01-01T00:00:00"


def new_id(prefix: str) -> Callable[[], str]:
    return lambda: f"{prefix}-{next(_numbers)}"


@dataclass(kw_only=True)
class FakeText:
    text: str
    id: str = field(default_factory=new_id("text"))
    type: Literal["text"] = "text"


@dataclass(kw_only=True)
class FakeThinking:
    thinking: str
    id: str = field(default_factory=new_id("thinking"))
    type: Literal["thinking"] = "thinking"


@dataclass(kw_only=True)
class FakeSource:
    type: Literal["base64", "url"] = "base64"
    media_type: str = "image/png"
    data: str = "AAAA"
    url: str = ""


@dataclass(kw_only=True)
class FakeData:
    source: FakeSource = field(default_factory=FakeSource)
    name: str | None = None
    id: str = field(default_factory=new_id("data"))
    type: Literal["data"] = "data"


@dataclass(kw_only=True)
class FakeHint:
    hint: str | list[FakeText | FakeData]
    source: str | None = None
    id: str = field(default_factory=new_id("hint"))
    type: Literal["hint"] = "hint"


@dataclass(kw_only=True)
class FakeCall:
    id: str
    name: str = "tool"
    input: str = "{}"
    state: str = "finished"
    type: Literal["tool_call"] = "tool_call"


@dataclass(kw_only=True)
class FakeResult:
    id: str
    name: str = "tool"
    output: str | list[FakeText | FakeData] = "done"
    state: str = "success"
    metadata: dict[str, Any] = field(default_factory=dict)
    type: Literal["tool_result"] = "tool_result"


FakeBlock = FakeText | FakeThinking | FakeHint | FakeCall | FakeResult | FakeData
BLOCKS = {
    "text": FakeText,
    "thinking": FakeThinking,
    "hint": FakeHint,
    "tool_call": FakeCall,
    "tool_result": FakeResult,
    "data": FakeData,
}


@dataclass(kw_only=True)
class FakeMsg:
    role: Literal["user", "assistant", "system"]
    name: str
    content: list[FakeBlock]
    id: str = field(default_factory=new_id("message"))
    metadata: dict[str, Any] = field(default_factory=dict)
    usage: Any = None
    created_at: str = CREATED_AT


def text(content: str) -> FakeText:
    return FakeText(text=content)


def thinking(content: str = "hm") -> FakeThinking:
    return FakeThinking(thinking=content)


def hint(content: str = "by the way") -> FakeHint:
    return FakeHint(hint=content)


def call(call_id: str, name: str = "tool", **arguments: object) -> FakeCall:
    return FakeCall(id=call_id, name=name, input=json.dumps(arguments))


def result(call_id: str, output: str | list[FakeText | FakeData] = "done", name: str = "tool") -> FakeResult:
    return FakeResult(id=call_id, name=name, output=output)


def image(data: str = "AAAA") -> FakeData:
    return FakeData(source=FakeSource(data=data))


def step(call_id: str, output: str = "done") -> list[FakeBlock]:
    """Return one reasoning step: thinking, a call, its result."""
    return [thinking(), call(call_id), result(call_id, output)]


def user(*content: FakeBlock | str, name: str = "user") -> FakeMsg:
    return FakeMsg(role="user", name=name, content=[text(b) if isinstance(b, str) else b for b in content])


def agent(*content: FakeBlock | Watched | str, name: str = "agent", reply_id: str | None = None) -> FakeMsg:
    blocks = [text(b) if isinstance(b, str) else b for b in content]
    message = FakeMsg(role="assistant", name=name, content=blocks)
    return message if reply_id is None else replace(message, id=reply_id)


class Watched:
    """Counts how often an attribute of a block is read."""

    def __init__(self, block: Any, reads: Counter[str]) -> None:
        self._block = block
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        self._reads[name] += 1
        return getattr(self._block, name)


def watched(messages: int, steps: int, reads: Counter[str]) -> list[FakeMsg]:
    """Return messages of some reasoning steps each, whose blocks count how often they are read."""
    numbers = [str(number) for number in range(steps)]
    return [agent(*(Watched(b, reads) for n in numbers for b in (*step(n), text("so")))) for _ in range(messages)]


class FakeCodec:
    """`ctxkit.port.Codec` on the fakes."""

    def text(self, text: str) -> FakeText:
        return FakeText(text=text)

    def hint(self, text: str, *, source: str | None = None) -> FakeHint:
        return FakeHint(hint=text, source=source)

    def user_message(self, content: str | Sequence[FakeText | FakeData], *, name: str = "user") -> FakeMsg:
        return user(*([content] if isinstance(content, str) else content), name=name)

    def system_message(self, text: str) -> FakeMsg:
        return FakeMsg(role="system", name="system", content=[FakeText(text=text)])

    def assistant_message(self, content: Sequence[FakeBlock], *, name: str, id: str | None = None) -> FakeMsg:  # noqa: A002 - the host's word
        return agent(*content, name=name, reply_id=id)

    def with_content(
        self, message: FakeMsg, content: Sequence[FakeBlock], *, mark: Mapping[str, Any] | None = None
    ) -> FakeMsg:
        return replace(message, content=list(content), metadata=_marked(message.metadata, mark))

    def result(self, text: str, *, id: str, name: str, state: str = "running") -> FakeResult:  # noqa: A002 - the host's word
        return FakeResult(id=id, name=name, output=text, state=state)

    def with_output(
        self, result: FakeResult, output: Sequence[FakeText | FakeData] | str, *, mark: Mapping[str, Any] | None = None
    ) -> FakeResult:
        new = output if isinstance(output, str) else list(output)
        return replace(result, output=new, metadata=_marked(result.metadata, mark))

    def with_input(self, call: FakeCall, arguments: str) -> FakeCall:
        return replace(call, input=arguments)

    def with_state(self, call: FakeCall, state: str) -> FakeCall:
        return replace(call, state=state)

    def with_id(self, item: Any, id: str) -> Any:  # noqa: A002 - the host's word
        return replace(item, id=id)

    def with_text(self, block: FakeBlock, text: str) -> FakeBlock:
        return replace(block, **{block.type: text})

    def with_hint(self, block: FakeHint, pieces: Sequence[FakeText | FakeData]) -> FakeHint:
        return replace(block, hint=list(pieces))

    def with_url(self, block: FakeData, url: str) -> FakeData:
        return replace(block, source=FakeSource(type="url", media_type=block.source.media_type, data="", url=url))

    def with_data(self, block: FakeData, data: str) -> FakeData:
        return replace(block, source=FakeSource(media_type=block.source.media_type, data=data))

    def with_mark_of(self, message: FakeMsg, other: FakeMsg) -> FakeMsg:
        others = {name: value for name, value in message.metadata.items() if name != "ctxkit"}
        mark = {"ctxkit": other.metadata["ctxkit"]} if "ctxkit" in other.metadata else {}
        return replace(message, metadata={**others, **mark})

    def with_usage_of(self, message: FakeMsg, other: FakeMsg) -> FakeMsg:
        usages = [one.usage for one in (message, other) if one.usage is not None]
        return replace(message, usage=sum(usages[1:], usages[0]) if usages else None)

    def dump(self, message: FakeMsg) -> str:
        return json.dumps(asdict(message))

    def load(self, line: str) -> FakeMsg:
        try:
            data = json.loads(line)
            return FakeMsg(**{**data, "content": [_loaded(block) for block in data["content"]]})
        except (TypeError, KeyError) as error:
            msg = f"{line!r} is no message"
            raise ValueError(msg) from error


@dataclass(kw_only=True)
class FakePort:
    """`ctxkit.port.AgentPort` on the fakes: its request is the system prompt, the summary and the context."""

    model: Any
    context: list[FakeMsg] = field(default_factory=list)
    summary: Sequence[FakeText | FakeData] | str = ""
    slot: dict[str, Any] = field(default_factory=dict)
    name: str = "agent"
    session_id: str = "session"
    reply_id: str = ""
    swaps: list[Swap] = field(default_factory=list)
    """The changes that were made."""
    checkpoints: int = 0
    """How often it was to be saved."""
    charged: list[Any] = field(default_factory=list)
    """What was charged beside the swaps."""

    async def request(self) -> Request:
        layers = [FakeMsg(role="system", name="system", content=[text("You help.")], id="system")]
        if self.summary:
            pieces = [text(self.summary)] if isinstance(self.summary, str) else list(self.summary)
            layers.append(FakeMsg(role="user", name="user", content=pieces, id="summary"))
        return Request(messages=[*layers, *self.context])

    def model_of(self, model: Any) -> Any:
        return model

    async def host_count(self, pieces: Sequence[FakeText | FakeData]) -> int:
        return int(sum(map(tokens_of, pieces)))

    async def checkpoint(self) -> None:
        self.checkpoints += 1

    def append(self, message: FakeMsg) -> None:
        self.context.append(message)

    async def swap(self, swap: Swap) -> bool:
        seen = len(swap.seen)
        if [id(message) for message in self.context[:seen]] != [id(message) for message in swap.seen]:
            return False
        self.context = [*swap.context, *self.context[seen:]]
        self.summary = self.summary if swap.summary is None else swap.summary
        self.swaps.append(swap)
        return True

    def charge(self, usage: Any) -> None:
        self.charged.append(usage)


def _loaded(data: Any) -> Any:
    if isinstance(data, list):
        return [_loaded(piece) for piece in data]
    if not isinstance(data, dict):
        return data
    fields = {key: _loaded(data[key]) if key in {"hint", "output"} else data[key] for key in data}
    if "source" in fields and isinstance(fields["source"], dict):
        fields["source"] = FakeSource(**fields["source"])
    return BLOCKS[fields["type"]](**fields)


def _marked(metadata: Mapping[str, Any], mark: Mapping[str, Any] | None) -> dict[str, Any]:
    return {**metadata, "ctxkit": {**metadata.get("ctxkit", {}), **mark}} if mark else dict(metadata)


def settings(
    *,
    paste_limit_ratio: float = 0.25,
    tool_result_limit: int = 10_000,
    max_image_num: int = 20,
    exclude_tools: frozenset[str] = frozenset(),
    ladder: LadderConfig | None = None,
) -> Settings:
    """Return settings as a user has them who changed none of these."""
    return Settings(
        trigger_ratio=0.8,
        reserve_ratio=0.1,
        compression_prompt="Summarise.",
        summary_template="{task_overview}",
        summary_schema=summary_json_schema(),
        tool_result_limit=tool_result_limit,
        fallback_to_truncation=True,
        max_image_num=max_image_num,
        results=ResultsConfig(paste_limit_ratio=paste_limit_ratio, exclude_tools=exclude_tools),
        summary=SummaryConfig(),
        triggers=TriggersConfig(),
        overflow=OverflowConfig(),
        ladder=ladder or LadderConfig(),
    )


def tokens_of(block: FakeBlock) -> float:
    """Count a token for each character that the model would read, and 100 for an image."""
    match block.type:
        case "data":
            return 100.0
        case "text" | "thinking":
            return float(len(getattr(block, block.type)))
        case "tool_call":
            return float(len(block.input))
        case _:
            inside = block.hint if block.type == "hint" else block.output
            return float(len(inside)) if isinstance(inside, str) else sum(map(tokens_of, inside))


def situation(
    *messages: FakeMsg, context_size: int = 1000, reply_id: str = "", config: Settings | None = None
) -> Situation:
    """Return the situation of an agent named "agent" with these messages."""
    view = View(messages, agent_name="agent", reply_id=reply_id)
    tokens = [[tokens_of(block) for block in content] for content in view.contents]
    return Situation(
        view=view,
        tokens=tokens,
        request_tokens=int(sum(map(sum, tokens))),
        fixed_tokens=0,
        context_size=context_size,
        settings=config or settings(),
    )
