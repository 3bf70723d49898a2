"""Blocks, messages, a codec and a ruler that behave as the host's, without the host."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass
class Text:
    text: str
    type: str = "text"


@dataclass
class Source:
    media_type: str = "image/png"
    data: str = ""
    url: str = ""
    type: str = "base64"


@dataclass
class Data:
    source: Source
    name: str | None = None
    type: str = "data"


@dataclass
class Hint:
    hint: Any
    source: str | None = None
    type: str = "hint"


@dataclass
class Call:
    id: str
    name: str
    input: str
    type: str = "tool_call"


@dataclass
class Result:
    id: str
    name: str
    output: Any
    state: str = "success"
    metadata: dict[str, Any] = field(default_factory=dict)
    type: str = "tool_result"


@dataclass
class Message:
    id: str
    content: list[Any]
    role: str = "assistant"
    name: str = "bob"
    metadata: dict[str, Any] = field(default_factory=dict)


class FakeCodec:
    """What the offload room asks of a codec."""

    def with_content(
        self, message: Message, content: Sequence[Any], *, mark: Mapping[str, Any] | None = None
    ) -> Message:
        return replace(message, content=list(content))

    def with_output(self, result: Result, output: Any, *, mark: Mapping[str, Any] | None = None) -> Result:
        return replace(result, output=output)

    def with_hint(self, hint: Hint, pieces: Sequence[Any]) -> Hint:
        return replace(hint, hint=list(pieces))

    def with_url(self, block: Data, url: str) -> Data:
        return replace(block, source=Source(media_type=block.source.media_type, url=url, type="url"))

    def with_text(self, block: Text, text: str) -> Text:
        return replace(block, text=text)

    def assistant_message(self, content: Sequence[Any], *, name: str) -> Message:
        return Message(id="made", content=list(content), name=name)

    def dump(self, message: Message) -> str:
        return json.dumps(asdict(message), ensure_ascii=False)

    def load(self, line: str) -> Message:
        read = json.loads(line)
        return Message(**{**read, "content": [_block(part) for part in read["content"]]})


def _block(part: dict[str, Any]) -> Any:
    kinds = {"text": Text, "data": Data, "hint": Hint, "tool_call": Call, "tool_result": Result}
    values = {name: _inner(value) for name, value in part.items()}
    return kinds[part["type"]](**values)


def _inner(value: Any) -> Any:
    if isinstance(value, list):
        return [_block(part) for part in value]
    return Source(**value) if isinstance(value, dict) and "media_type" in value else value


class FourCharRuler:
    """A token is four characters."""

    async def count(self, text: str) -> int:
        return (len(text) + 3) // 4

    async def head(self, text: str, tokens: int) -> str:
        return text[: tokens * 4]


def said(identifier: str, text: str, *, role: str = "assistant", name: str = "bob") -> Message:
    return Message(id=identifier, content=[Text(text)], role=role, name=name)
