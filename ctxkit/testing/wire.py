"""How OpenAI chat completions and Anthropic messages look on the wire: answers plain and streamed, and what a request weighs.

Written after the public API references (platform.openai.com/docs/api-reference/chat, docs.anthropic.com/en/api/messages
and messages-streaming); AgentScope's real model classes read them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Protocol = Literal["openai", "anthropic"]
"""Which of the two a request speaks."""

_PIECE_CHARS: Final = 12


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer of a provider."""

    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    """Tool calls: name and arguments."""
    input_tokens: int | None = None
    """All input tokens, cached ones included; counted from the request where unset."""
    cached_tokens: int = 0
    """Input tokens that were read from the cache."""
    written_tokens: int = 0
    """Input tokens that were written to the cache; only Anthropic tells."""
    output_tokens: int = 7
    cut_after: int | None = None
    """Events of the stream after which the connection is cut; without a stream it is cut in the middle of the body."""
    error: Mapping[str, Any] | None = field(default=None)
    """A body of an error that is sent as an event in place of the end of the stream."""


def completion(reply: Reply, *, model: str, input_tokens: int) -> dict[str, Any]:
    """Return a chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [_openai_call(number, *each) for number, each in enumerate(reply.calls)]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if reply.calls else "stop"}],
        "usage": _openai_usage(reply, input_tokens),
    }


def completion_events(reply: Reply, *, model: str, input_tokens: int, with_usage: bool) -> Iterator[str]:
    """Yield the server-sent events of a streamed chat completion, the end included.

    Args:
        reply: What is said; its error comes in place of finish reason, usage and end.
        model: The model's name.
        input_tokens: Tokens of the request.
        with_usage: The request has `stream_options.include_usage`.
    """
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": model}

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> str:
        return _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(reply.text):
        yield chunk({"content": piece})
    for number, (name, arguments) in enumerate(reply.calls):
        first = _openai_call(number, name, arguments)
        text = first["function"]["arguments"]
        first["function"]["arguments"] = ""
        yield chunk({"tool_calls": [{"index": number, **first}]})
        for piece in _pieces(text):
            yield chunk({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
    if reply.error is not None:
        yield _event(reply.error)
        return
    yield chunk({}, "tool_calls" if reply.calls else "stop")
    if with_usage:
        yield _event({**head, "choices": [], "usage": _openai_usage(reply, input_tokens)})
    yield "data: [DONE]\n\n"


def message(reply: Reply, *, model: str, input_tokens: int) -> dict[str, Any]:
    """Return an Anthropic message."""
    content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
    content += [
        {"type": "tool_use", "id": _call_id(number), "name": name, "input": dict(arguments)}
        for number, (name, arguments) in enumerate(reply.calls)
    ]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": {**_anthropic_usage(reply, input_tokens), "output_tokens": reply.output_tokens},
    }


def message_events(reply: Reply, *, model: str, input_tokens: int) -> Iterator[str]:
    """Yield the server-sent events of a streamed Anthropic message; its error comes in place of the last two."""
    whole = message(reply, model=model, input_tokens=input_tokens)
    usage = {**_anthropic_usage(reply, input_tokens), "output_tokens": 1}
    yield _named({"type": "message_start", "message": {**whole, "content": [], "stop_reason": None, "usage": usage}})
    for index, block in enumerate(whole["content"]):
        is_text = block["type"] == "text"
        start = {**block, "text": ""} if is_text else {**block, "input": {}}
        yield _named({"type": "content_block_start", "index": index, "content_block": start})
        for piece in _pieces(block["text"] if is_text else json.dumps(block["input"], ensure_ascii=False)):
            delta = (
                {"type": "text_delta", "text": piece}
                if is_text
                else {"type": "input_json_delta", "partial_json": piece}
            )
            yield _named({"type": "content_block_delta", "index": index, "delta": delta})
        yield _named({"type": "content_block_stop", "index": index})
    if reply.error is not None:
        yield f"event: error\n{_event(reply.error)}"
        return
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield _named({"type": "message_delta", "delta": end, "usage": {"output_tokens": reply.output_tokens}})
    yield _named({"type": "message_stop"})


def texts_of(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield all that a provider tokenises of a request of either protocol: prompts, contents, calls and tools."""
    for key in ("system", "messages"):
        yield from _strings(body.get(key))
    for tool in body.get("tools") or ():
        yield json.dumps(tool, ensure_ascii=False)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            # Pictures come as base64 text that nobody tokenises.
            if key not in {"type", "source", "image_url", "input_audio", "file"}:
                yield from _strings(item)


def _openai_call(number: int, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": _call_id(number), "type": "function", "function": function}


def _call_id(number: int) -> str:
    return f"call_{number}"


def _openai_usage(reply: Reply, input_tokens: int) -> dict[str, Any]:
    return {
        "prompt_tokens": input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
    }


def _anthropic_usage(reply: Reply, input_tokens: int) -> dict[str, Any]:
    return {
        "input_tokens": input_tokens - reply.cached_tokens - reply.written_tokens,
        "cache_read_input_tokens": reply.cached_tokens,
        "cache_creation_input_tokens": reply.written_tokens,
    }


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE_CHARS):
        yield text[start : start + _PIECE_CHARS]


def _event(data: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


def _named(data: Mapping[str, Any]) -> str:
    return f"event: {data['type']}\n{_event(data)}"
