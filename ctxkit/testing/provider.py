"""A provider on a local socket: OpenAI chat completions and Anthropic messages, scripted, refusing and breaking off.

It is for driving real model classes, with their SDKs, through everything that a network and a server can do.
"""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Self

from ctxkit.testing import wire
from ctxkit.testing.refusals import Provider, overflow_body
from ctxkit.testing.tokenizers import Count, RequestCounter, TokenizerName, byte_quarters
from ctxkit.testing.wire import Reply


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An HTTP error in place of an answer."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def overflow(cls, provider: Provider = "openai", *, limit_tokens: int, needed_tokens: int) -> Self:
        """Return a provider's own refusal of a request over the window."""
        return cls(status=400, body=overflow_body(provider, limit_tokens=limit_tokens, needed_tokens=needed_tokens))

    @classmethod
    def rate_limit(cls, protocol: wire.Protocol = "openai", *, retry_after_s: float = 0) -> Self:
        """Return a 429 that asks to come back after some seconds."""
        said = "Rate limit reached on tokens per min (TPM): Limit 30000, Requested 34000."
        return cls(
            status=429,
            body=_error_body(protocol, kind="rate_limit_error", message=said, code="rate_limit_exceeded"),
            headers={"retry-after": f"{retry_after_s:g}"},
        )

    @classmethod
    def server_error(cls, protocol: wire.Protocol = "openai") -> Self:
        """Return a 500."""
        return cls(status=500, body=_error_body(protocol, kind="api_error", message="Internal server error", code=None))


@dataclass(frozen=True, kw_only=True)
class ProviderRequest:
    """One request as it came over the socket."""

    protocol: wire.Protocol
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Mapping[str, Any]
    input_tokens: int
    """Tokens of the request by the provider's tokenizer."""


Said = Reply | Refusal
Step = Said | Callable[[ProviderRequest], "Said | Awaitable[Said]"]
"""One line of a script: what is answered, or a function of the request that gives it."""

_MESSAGE_TOKENS: Final = 3


class FakeProvider:
    """A server for one event loop; use it as `async with FakeProvider(...) as provider`.

    Any path that ends in `/chat/completions` speaks OpenAI, any that ends in `/messages` Anthropic, so `base_url` is
    right for both SDKs. Every connection is closed after its answer.

    Args:
        script: The answers, one a request, whoever asks.
        after: What is answered when the script has ended.
        enforce: A vocabulary; requests that are larger than `context_size` are refused before the script is asked.
            Without it tokens are UTF-8 bytes / 4, and nothing is refused but by script.
        context_size: Tokens of the window that is enforced.
        refuse_as: Whose words refuse a request of OpenAI's protocol; Anthropic's protocol has Anthropic's.
    """

    def __init__(
        self,
        script: Iterable[Step] = (),
        *,
        after: Step | None = None,
        enforce: TokenizerName | Count | None = None,
        context_size: int = 32768,
        refuse_as: Provider = "openai",
    ) -> None:
        self.requests: list[ProviderRequest] = []
        self._script: Iterator[Step] = iter(script)
        self._after = Reply(text="done") if after is None else after
        self._limit = None if enforce is None else context_size
        self._counter = RequestCounter(byte_quarters if enforce is None else enforce)
        self._refuse_as = refuse_as
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is None:
            return
        self._server.close()
        for connection in self._connections:  # a script may still be waiting for something
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    @property
    def base_url(self) -> str:
        """Where it listens, for example `http://127.0.0.1:41234`.

        Raises:
            RuntimeError: It is not open.
        """
        if self._server is None:
            raise RuntimeError("the provider is not open: use `async with FakeProvider(...) as provider`")
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._serve(reader, writer), name="ctxkit-fake-provider")
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await self._receive(reader)
            if request is None:
                _send(
                    writer, 404, json.dumps(_error_body("openai", kind="not_found", message="no such path", code=None))
                )
            else:
                self.requests.append(request)
                await self._answer(request, await self._say(request), writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone: what it asked for is of no use to anybody
        finally:
            writer.close()

    async def _receive(self, reader: asyncio.StreamReader) -> ProviderRequest | None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        path = head[0].split(" ")[1]
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        is_anthropic = path.endswith("/messages")
        if not (is_anthropic or path.endswith("/chat/completions")):
            return None
        body = json.loads(raw)
        tokens = sum([await self._counter.text(text) for text in wire.texts_of(body)])
        return ProviderRequest(
            protocol="anthropic" if is_anthropic else "openai",
            path=path,
            headers=headers,
            body=body,
            input_tokens=tokens + _MESSAGE_TOKENS * len(body["messages"]),
        )

    async def _say(self, request: ProviderRequest) -> Said:
        if self._limit is not None and request.input_tokens > self._limit:
            words: Provider = "anthropic" if request.protocol == "anthropic" else self._refuse_as
            return Refusal.overflow(words, limit_tokens=self._limit, needed_tokens=request.input_tokens)
        step = next(self._script, self._after)
        said = step(request) if callable(step) else step
        return await said if inspect.isawaitable(said) else said

    async def _answer(self, request: ProviderRequest, said: Said, writer: asyncio.StreamWriter) -> None:
        if isinstance(said, Refusal):
            _send(writer, said.status, json.dumps(said.body), said.headers)
            return
        model = str(request.body.get("model"))
        tokens = request.input_tokens if said.input_tokens is None else said.input_tokens
        if request.body.get("stream"):
            options = request.body.get("stream_options") or {}
            with_usage = bool(options.get("include_usage"))
            events = (
                wire.message_events(said, model=model, input_tokens=tokens)
                if request.protocol == "anthropic"
                else wire.completion_events(said, model=model, input_tokens=tokens, with_usage=with_usage)
            )
            await _send_events(writer, events, cut_after=said.cut_after)
            return
        build = wire.message if request.protocol == "anthropic" else wire.completion
        text = json.dumps(build(said, model=model, input_tokens=tokens))
        _send(writer, 200, text, sent=len(text) // 2 if said.cut_after is not None else None)


def _send(
    writer: asyncio.StreamWriter,
    status: int,
    text: str,
    headers: Mapping[str, str] | None = None,
    *,
    sent: int | None = None,
) -> None:
    """Write a whole answer, or only its first `sent` characters."""
    raw = text.encode()
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "content-type: application/json",
        f"content-length: {len(raw)}",
        "connection: close",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode() + raw[:sent])


async def _send_events(writer: asyncio.StreamWriter, events: Iterator[str], *, cut_after: int | None) -> None:
    """Write server-sent events as chunks, each at once; a cut leaves the chunked body without its end."""
    writer.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    )
    for number, event in enumerate(events):
        if number == cut_after:
            return
        raw = event.encode()
        writer.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
        await writer.drain()
    writer.write(b"0\r\n\r\n")


def _error_body(protocol: wire.Protocol, *, kind: str, message: str, code: str | None) -> dict[str, Any]:
    if protocol == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": message}}
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
